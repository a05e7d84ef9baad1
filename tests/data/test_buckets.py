"""Batches keep to their budget, hold every pair once an epoch, go on from any place, and waste little on padding."""

import dataclasses
import gzip
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.data import Batch, Batches, Corpus, Place, in_order, write_shards
from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

DATA = Path(os.environ.get("QKV_DATA", Path(__file__).parents[3] / "shared" / "data"))
TOKENIZER = Tokenizer.train(["a b c d"], vocab_size=280)


def corpus_of(folder: Path, lengths: list[tuple[int, int]], shard_pairs: int = 2**18) -> Corpus:
    """Pairs of so many letters; the source begins with the pair's own number, so that no two are equal."""
    pairs = [(f"{number}" + "a" * source, "b" * target) for number, (source, target) in enumerate(lengths)]
    write_shards(folder, pairs, TOKENIZER, count=len(pairs), max_length=10_000, shard_pairs=shard_pairs)
    return Corpus.open(folder, TOKENIZER.fingerprint)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """600 pairs in 5 shards, with lengths that follow each other as those of translations do."""
    rng = np.random.default_rng(0)
    sources = rng.integers(0, 20, 600)
    targets = np.maximum(0, sources + rng.integers(-3, 4, 600))
    return corpus_of(tmp_path / "corpus", list(zip(sources.tolist(), targets.tolist(), strict=True)), shard_pairs=128)


def epoch(batches: Batches, number: int) -> list[Batch]:
    stream = batches.stream(Place(number, 0))
    return [batch for batch, _ in itertools.islice(stream, batches.count(number))]


def same(one: Batch, other: Batch) -> bool:
    return (
        torch.equal(one.src, other.src) and torch.equal(one.tgt, other.tgt) and np.array_equal(one.pairs, other.pairs)
    )


def rows_of(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(shard, row) for batch in batches for shard, row in batch.pairs.tolist()]


def all_rows(corpus: Corpus) -> list[tuple[int, int]]:
    return [(shard, row) for shard in range(corpus.shards) for row in range(len(corpus.shard(shard)))]


def cells(batch: Batch) -> int:
    return batch.src.numel() + batch.tgt.numel()


def expected(corpus: Corpus, batch: Batch) -> Iterator[tuple[list[int], list[int]]]:
    """The rows as a plain loop would build them."""
    for shard, row in batch.pairs.tolist():
        source = [*corpus.shard(shard).source(row).tolist(), EOS]
        target = [BOS, *corpus.shard(shard).target(row).tolist(), EOS]
        yield (
            source + [PAD] * (batch.src.shape[1] - len(source)),
            target + [PAD] * (batch.tgt.shape[1] - len(target)),
        )


def test_rows_are_ids_between_their_specials(corpus: Corpus) -> None:
    for batch in itertools.chain(epoch(Batches(corpus, 256, seed=3), 0), in_order(corpus, 256)):
        rows = list(expected(corpus, batch))
        assert batch.src.tolist() == [source for source, _ in rows]
        assert batch.tgt.tolist() == [target for _, target in rows]
        assert batch.src.dtype == batch.tgt.dtype == torch.int64
        assert (batch.src[:, -1] != PAD).any()  # no wider than its longest row
        assert (batch.tgt[:, -1] != PAD).any()


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60),
    tokens=st.integers(1, 300),
    shard_pairs=st.integers(1, 80),
)
def test_every_pair_once_and_under_the_budget(lengths: list[tuple[int, int]], tokens: int, shard_pairs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = corpus_of(Path(folder) / "corpus", lengths, shard_pairs)
        batches = Batches(corpus, tokens, seed=1)
        for found in (epoch(batches, 0), epoch(batches, 1), list(in_order(corpus, tokens))):
            assert sorted(rows_of(found)) == all_rows(corpus)
            for batch in found:
                rows = len(batch.src)
                assert rows == 1 or rows * max(batch.src.shape[1], batch.tgt.shape[1]) <= tokens
        assert cells(batches.largest()) == max(map(cells, epoch(batches, 0)))


def test_any_place_goes_on_as_if_never_left(corpus: Corpus) -> None:
    whole = Batches(corpus, 256, seed=5)
    count = whole.count(0)
    run = list(itertools.islice(whole.stream(), 2 * count + 3))
    assert run[count - 1][1] == Place(1, 0)
    assert run[-1][1] == Place(2, 3)
    for stop in (0, 1, count // 2, count - 2, count - 1, count, count + 7):
        saved = json.dumps(dataclasses.asdict(run[stop][1]))
        resumed = Batches(corpus, 256, seed=5).stream(Place(**json.loads(saved)))
        for (batch, place), (again, place_again) in zip(run[stop + 1 :], resumed, strict=False):
            assert same(batch, again)
            assert place == place_again


def test_skipped_batches_are_not_read(corpus: Corpus) -> None:
    """The shards that lie wholly before the place may even be damaged."""
    batches = Batches(corpus, 256, seed=5)
    last = epoch(batches, 0)[-1]
    for shard in range(corpus.shards):
        if shard != last.pairs[0, 0]:
            path = corpus.folder / f"{shard:05d}.ids"
            path.write_bytes(bytes(path.stat().st_size))
    fresh = Batches(Corpus.open(corpus.folder, TOKENIZER.fingerprint), 256, seed=5)
    assert same(next(fresh.stream(Place(0, fresh.count(0) - 1)))[0], last)
    with pytest.raises(InputError, match="damaged"):
        epoch(fresh, 0)


def test_epochs_and_seeds_differ_in_batches_not_only_in_their_order(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus", [(number % 3, number % 2) for number in range(600)])

    def sets(seed: int, number: int) -> set[frozenset[tuple[int, int]]]:
        return {frozenset(rows_of([batch])) for batch in epoch(Batches(corpus, 64, seed=seed), number)}

    first = sets(0, 0)
    assert sets(0, 0) == first
    for other in (sets(0, 1), sets(0, 2), sets(1, 0)):
        assert len(other & first) < len(first) / 10


def test_batches_come_in_random_order_of_length(corpus: Corpus) -> None:
    widths = [batch.tgt.shape[1] for batch in epoch(Batches(corpus, 128, seed=0), 0)]
    assert abs(np.corrcoef(widths[:-1], widths[1:])[0, 1]) < 0.5  # sorted batches would give nearly 1


def test_a_pair_wider_than_the_budget_is_alone(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus", [(5, 5), (900, 10), (5, 6), (10, 700), (4, 4)])
    batches = Batches(corpus, 100, seed=0)
    found = epoch(batches, 0)
    assert sorted(len(batch.src) for batch in found) == [1, 1, 3]
    assert batches.largest().src.shape[1] > 900


def test_in_order_is_always_the_same_and_sorted(corpus: Corpus) -> None:
    found = list(in_order(corpus, 256))
    assert all(same(one, other) for one, other in zip(found, in_order(corpus, 256), strict=True))
    for _, group in itertools.groupby(found, key=lambda batch: batch.pairs[0, 0]):
        widths = [batch.tgt.shape[1] for batch in group]
        assert widths == sorted(widths)


def test_mistakes_are_told(corpus: Corpus) -> None:
    batches = Batches(corpus, 256, seed=0)
    for place in (Place(0, batches.count(0)), Place(-1, 0), Place(0, -1)):
        with pytest.raises(InputError, match="is not in this corpus"):
            next(batches.stream(place))
    with pytest.raises(InputError, match="a budget of 0 tokens"):
        Batches(corpus, 0, seed=0)
    with pytest.raises(InputError, match="a budget of 0 tokens"):
        next(in_order(corpus, 0))


@pytest.fixture(scope="module")
def multi30k(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = DATA / "multi30k"
    if not folder.exists():
        pytest.skip("the Multi30k set is not on this machine; name its folder in QKV_DATA")
    sides = []
    for side in ("de", "en"):
        with gzip.open(folder / f"train.{side}.gz", "rt", encoding="utf-8") as file:
            sides.append(file.read().splitlines())
    tokenizer = Tokenizer.train(itertools.chain(*sides), vocab_size=8000)
    shards = tmp_path_factory.mktemp("multi30k") / "corpus"
    write_shards(shards, zip(*sides, strict=True), tokenizer, count=len(sides[0]), max_length=256)
    return Corpus.open(shards, tokenizer.fingerprint)


@pytest.mark.parametrize("tokens", [2048, 4096])
def test_padding_takes_less_than_a_twentieth_of_multi30k(multi30k: Corpus, tokens: int) -> None:
    batches = Batches(multi30k, tokens, seed=0)
    first, second = epoch(batches, 0), epoch(batches, 1)
    padding = sum(int((batch.src == PAD).sum() + (batch.tgt == PAD).sum()) for batch in first)
    assert padding / sum(map(cells, first)) < 0.05
    assert sorted(rows_of(first)) == sorted(rows_of(second)) == all_rows(multi30k)
    one, two = ({frozenset(rows_of([batch])) for batch in found} for found in (first, second))
    assert len(one & two) < len(one) / 10
