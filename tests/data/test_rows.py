"""Shards hold every pair once, appear whole or not at all, and say so when they are damaged."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from qkv.data import Corpus, Written, write_shards
from qkv.errors import InputError
from qkv.text.tokenizer import Tokenizer

WORDS = ["red", "green", "blue", "Haus", "Straße", "你好", "世界", "cat", "dog", "42"]
TOKENIZER = Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=400)


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))


def some_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Different pairs: the number in front sees to that."""
    rng = random.Random(seed)
    return [(f"{number} {sentence(rng)}", sentence(rng)) for number in range(count)]


def texts(corpus: Corpus) -> list[list[tuple[str, str]]]:
    """What each shard holds, as text."""
    return [
        [(TOKENIZER.decode(shard.source(row)), TOKENIZER.decode(shard.target(row))) for row in range(len(shard))]
        for shard in map(corpus.shard, range(corpus.shards))
    ]


def write(folder: Path, pairs: list[tuple[str, str]], shard_pairs: int = 2**18, max_length: int = 100) -> Written:
    return write_shards(folder, pairs, TOKENIZER, count=len(pairs), max_length=max_length, shard_pairs=shard_pairs)


def test_every_pair_is_there_once(tmp_path: Path) -> None:
    pairs = some_pairs(500)
    written = write(tmp_path / "corpus", pairs, shard_pairs=64)
    corpus = Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint)
    assert corpus.shards == 8  # 500 / 64, rounded up
    found = texts(corpus)
    assert sorted(pair for shard in found for pair in shard) == sorted(pairs)
    assert min(map(len, found)) > 30  # a random split: 62 on average
    sources, targets = (sum(map(len, TOKENIZER.encode_batch(side))) for side in zip(*pairs, strict=True))
    assert written == corpus.written == Written(500, 0, 0, sources, targets)
    assert len(corpus) == 500


def test_the_first_of_equal_pairs_is_kept_and_the_rest_counted(tmp_path: Path) -> None:
    pairs = some_pairs(200)
    same_source = [(source, target + " dog") for source, target in pairs[:50]]
    written = write(tmp_path / "corpus", pairs[:120] + pairs + same_source + pairs, shard_pairs=100)
    assert (written.pairs, written.duplicates) == (250, 320)
    found = texts(Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint))
    assert sorted(pair for shard in found for pair in shard) == sorted(pairs + same_source)
    order = {pair: number for number, pair in enumerate(pairs + same_source)}
    assert all([order[pair] for pair in shard] == sorted(order[pair] for pair in shard) for shard in found)


def test_where_a_source_ends_matters_for_equality(tmp_path: Path) -> None:
    """Both pairs have the same ids in a row; only the border differs."""
    source, target = TOKENIZER.encode("red green"), TOKENIZER.encode("blue")
    moved = (TOKENIZER.decode(source[:1]), TOKENIZER.decode(source[1:] + target))
    assert write(tmp_path / "corpus", [("red green", "blue"), moved]).duplicates == 0


def test_long_pairs_are_counted_and_left_out(tmp_path: Path) -> None:
    length = len(TOKENIZER.encode("red green blue"))
    pairs = [("red", "red green blue"), ("red green blue", "red"), ("red", "red green blue dog"), ("cat " * 50, "cat")]
    written = write(tmp_path / "corpus", pairs, max_length=length)
    assert (written.pairs, written.too_long) == (2, 2)
    assert sorted(texts(Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint))[0]) == sorted(pairs[:2])


def test_empty_sides_and_empty_shards_are_fine(tmp_path: Path) -> None:
    write_shards(tmp_path / "corpus", [("", "")], TOKENIZER, count=5, max_length=9, shard_pairs=1)
    corpus = Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint)
    assert sorted(texts(corpus), key=len) == [[], [], [], [], [("", "")]]


def test_ids_are_as_narrow_as_the_vocabulary_allows(tmp_path: Path) -> None:
    write(tmp_path / "narrow", some_pairs(5))
    assert Corpus.open(tmp_path / "narrow", TOKENIZER.fingerprint).shard(0).ids.dtype == np.uint16
    alphabet = [chr(number) for number in range(0x20000, 0x20000 + 2**16)]
    wide = Tokenizer.train(["𠀀 a"], vocab_size=2**17, alphabet=alphabet)
    write_shards(tmp_path / "wide", [(alphabet[-1], "a")], wide, count=1, max_length=9)
    shard = Corpus.open(tmp_path / "wide", wide.fingerprint).shard(0)
    assert shard.ids.dtype == np.uint32
    assert wide.decode(shard.source(0)) == alphabet[-1]


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[int] = []
    pairs = [("red", "blue")] * 10_000
    write_shards(tmp_path / "corpus", pairs, TOKENIZER, count=10_000, max_length=9, progress=seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 10_000


def test_a_failed_run_leaves_the_old_shards_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "corpus", some_pairs(20))
    before = texts(Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint))

    def broken() -> Iterator[tuple[str, str]]:
        yield from some_pairs(10_000)
        raise InputError("line 10001 is not UTF-8")

    with pytest.raises(InputError, match="line 10001"):
        write_shards(tmp_path / "corpus", broken(), TOKENIZER, count=10_001, max_length=9)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
    assert texts(Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint)) == before


def test_shards_replace_older_shards_but_no_other_files(tmp_path: Path) -> None:
    write(tmp_path / "corpus", some_pairs(20))
    assert write(tmp_path / "corpus", some_pairs(30, seed=1)).pairs == 30
    assert len(Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint)) == 30
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(InputError, match="not overwritten"):
        write(tmp_path / "thesis", some_pairs(5))
    assert (tmp_path / "thesis" / "chapter1.txt").exists()


def test_the_leftovers_of_a_killed_run_are_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "corpus.partial").mkdir()
    (tmp_path / "corpus.partial" / "00000.ids").write_bytes(b"half")
    assert write(tmp_path / "corpus", some_pairs(20)).pairs == 20
    assert len(texts(Corpus.open(tmp_path / "corpus", TOKENIZER.fingerprint))[0]) == 20


def test_damage_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write(folder, some_pairs(50))
    ids = (folder / "00000.ids").read_bytes()
    (folder / "00000.ids").write_bytes(ids[:-2])
    with pytest.raises(InputError, match=r"00000.ids is damaged or missing"):
        Corpus.open(folder, TOKENIZER.fingerprint)
    (folder / "00000.ids").write_bytes(ids[:10] + bytes([ids[10] ^ 1]) + ids[11:])
    corpus = Corpus.open(folder, TOKENIZER.fingerprint)  # sizes agree; the content is read with the shard
    with pytest.raises(InputError, match=r"00000.ids is damaged or missing"):
        corpus.shard(0)
    (folder / "00000.ids").unlink()
    with pytest.raises(InputError, match=r"00000.ids is damaged or missing"):
        Corpus.open(folder, TOKENIZER.fingerprint)


def test_a_bad_index_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    with pytest.raises(InputError, match=r"no index.json"):
        Corpus.open(folder, TOKENIZER.fingerprint)
    write(folder, some_pairs(5))
    with pytest.raises(InputError, match="another tokenizer"):
        Corpus.open(folder, "0" * 64)
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "version": 99}))
    with pytest.raises(InputError, match="has format 99"):
        Corpus.open(folder, TOKENIZER.fingerprint)
    for bad in ("", "[]", "{}", '{"version": 1}', json.dumps({**index, "dtype": "nonsense"})):
        (folder / "index.json").write_text(bad)
        with pytest.raises(InputError, match=r"index.json is damaged"):
            Corpus.open(folder, TOKENIZER.fingerprint)


def test_nothing_to_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no pair is left"):
        write(tmp_path / "corpus", [])
    with pytest.raises(InputError, match="1 were too long"):
        write(tmp_path / "corpus", [("cat " * 50, "cat")], max_length=3)
    with pytest.raises(InputError, match="max_length=0"):
        write(tmp_path / "corpus", some_pairs(3), max_length=0)
    assert not list(tmp_path.iterdir())
