"""What the native engine does beside whole searches: streams, texts that outgrow their context, long sources, and where
its decoder looks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kit import TEXTS, refused, some_pairs, some_rows, tokenizer
from native_engine import FORMS, PATHS, WORDS, engine, model, same
from qkv.attention import recording
from qkv.convert.native import write
from qkv.decoding import Plain, Search, Translator, padded
from qkv.decoding.alignment import align, best_layer
from qkv.engines.native.library import Native, is_built
from qkv.engines.native.writer import NativeWriter
from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS

pytestmark = pytest.mark.skipif(not is_built(), reason="the native engine is not built")
DRAWN = {"beam": 1, "sampling": True, "n_best": 2, "seed": 3, "temperature": 1.5}
SEARCHES = [
    Search(beam=1), Search(beam=1, ends="never", prefix=(7, 7)), Search(ends="cut", no_repeat=2, **DRAWN),
    Search(at_least=4, prefix=(9,), **DRAWN),
]  # fmt: skip


# -- streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("how", SEARCHES)
def test_a_stream_is_the_plain_one_step_by_step(name: str, how: Search, tmp_path: Path) -> None:
    plain, rows = model(name), some_rows(7, 1, range(4, WORDS))
    limits, numbers = [9, 3, 1, 12, 9, 5, 7], [(i, 4) for i in range(7)]
    ours = list(engine(tmp_path, plain).stream(rows, limits, how, numbers))
    exact = list(Plain(plain).stream(rows, limits, how, numbers))
    assert [[step.rows.tolist(), step.tokens.tolist()] for step in ours] == [
        [step.rows.tolist(), step.tokens.tolist()] for step in exact
    ]
    assert [list(step.done) for step in ours] == [list(step.done) for step in exact]
    for one, other in zip(ours, exact, strict=True):
        same([list(one.done.values())], [list(other.done.values())])


def test_a_stream_that_nobody_reads_on_ends(tmp_path: Path) -> None:
    """And one goes on by itself, whatever is written meanwhile."""
    ours = engine(tmp_path, model(), 8)
    how, rows = Search(beam=1), some_rows(5, 1, range(4, WORDS))
    left, read = (ours.stream(rows, [9] * 5, how) for _ in range(2))
    for stream in (left, read):
        next(stream)
    left.close()  # type: ignore[attr-defined]
    whole = ours.decode(rows, [9] * 5, how)
    last = {row: one for step in read for row, one in step.done.items()}
    assert all(whole[row][0] == one for row, one in last.items())
    assert last


def test_threads_change_nothing_of_a_stream(tmp_path: Path) -> None:
    native = engine(tmp_path, model("gpt2"), 8).native
    rules = {"first": BOS, "end": EOS, "never": [0, 1, 3], "no_repeat": 0, "ends": 1}
    rows = some_rows(40, 1, range(4, WORDS))

    def steps(threads: int) -> list[Any]:
        found = native.stream(rows, [9] * 40, threads=threads, **rules)
        return [(step.rows.tolist(), step.tokens.tolist(), step.done) for step in found]

    assert steps(1) == steps(3)


# -- beyond the context, and long sources ------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [1, 2, 7, 12])
@pytest.mark.parametrize("held", PATHS)
def test_texts_outgrow_their_context_as_the_plain_ones_do(context: int, held: str, tmp_path: Path) -> None:
    """Some slide at once, some later and several times, some not at all; samples and hypotheses share a past."""
    plain, rows = model("gpt2", max_length=context), [[5, 6, 7], [8], [*range(4, 24)], [9] * 7]
    ours, limits = engine(tmp_path, plain, held=held), [20, 40, 9, 1]
    for how in (Search(beam=1, ends="never"), Search(beam=3, n_best=3, ends="cut"), Search(ends="cut", **DRAWN)):
        same(ours.decode(rows, limits, how), Plain(plain).decode(rows, limits, how))


def test_a_long_text_does_not_keep_what_it_has_forgotten(tmp_path: Path) -> None:
    """20,000 tokens in a context of 16 take no more memory than 1,000: the resident set of the process stays."""
    ours = engine(tmp_path, model("gpt2", max_length=16, layers=6, n_heads=8, d_k=64), 8)
    how, pages = Search(beam=1, ends="never"), list[int]()
    for i, _ in enumerate(ours.stream([[5, 6]], [20_000], how)):
        if i in (1_000, 19_000):
            pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
    assert (pages[1] - pages[0]) * 4096 < 2**24  # the keys and values of all would be 440 MB


@pytest.mark.parametrize("bits", [8, 32])
def test_a_source_longer_than_what_goes_through_the_blocks_together(bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [rng.integers(4, WORDS, size=n).tolist() for n in (290, 3, 127, 140)]
    plain, limits = model(max_length=300), [300, 9, 12, 150]
    found = engine(tmp_path, plain, bits).decode(rows, limits, Search(beam=2))
    assert len(found) == 4
    if bits == 32:
        same(found, Plain(plain).decode(rows, limits, Search(beam=2)))


def test_the_model_does_the_rest(tmp_path: Path) -> None:
    """A source that has no place in the file, and a penalty of repetition."""
    plain, opened = model(), list[Any]()
    write(tmp_path / "model.qkv", plain, bits=32)
    native = Native(tmp_path / "model.qkv")
    ours = NativeWriter(lambda: opened.append(plain) or plain, native, has_prompts=False)  # type: ignore[func-returns-value]
    how, long = Search(beam=1), [[5] * 60]
    same(ours.decode([[5] * 20], [9], how), Plain(plain).decode([[5] * 20], [9], how))
    assert not opened
    same(ours.decode(long, [9], how), Plain(plain).decode(long, [9], how))
    assert len(list(ours.stream(long, [3], how))) <= 3
    assert len(opened) == 1
    how = Search(beam=1, repetition_penalty=1.5)
    same(ours.decode([[5] * 20], [9], how), Plain(plain).decode([[5] * 20], [9], how))
    assert len(list(ours.stream([[5] * 20], [3], how))) <= 3


# -- where the decoder looks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", PATHS)
@pytest.mark.parametrize("sizes", [{}, {"norm": "pre", "n_heads": 3, "d_k": 20, "attention_bias": True}])
@torch.inference_mode()
def test_attention_over_the_source_is_the_model_s(sizes: dict[str, Any], held: str, tmp_path: Path) -> None:
    """Every layer and head, of pairs of several lengths, one of them longer than a group."""
    plain, sources = model(max_length=180, **sizes), [*some_rows(6, 1, range(4, WORDS)), [9] * 150]
    targets = [*some_rows(6, 2, range(4, WORDS)), [7, 8] * 85]
    ours = engine(tmp_path, plain, held=held)
    for layer in range(2):
        found = ours.attention(sources, targets, layer)
        for source, target, weights in zip(sources, targets, found, strict=True):
            with recording(plain, "memory_attention") as maps:
                plain(padded([source]), torch.tensor([[BOS, *target]]))
            expected = maps[f"decoder.blocks.{layer}.memory_attention"][0]
            assert weights.shape == (plain.config.n_heads, len(target) + 1, len(source) + 1)
            assert np.allclose(weights, expected, atol=1e-6)


def test_attention_does_not_depend_on_neighbours_and_threads(tmp_path: Path) -> None:
    native = engine(tmp_path, model(), 8).native
    sources, targets = (some_rows(30, seed, range(4, WORDS)) for seed in (1, 2))
    whole = native.attention(sources, targets, 1, threads=3)
    for i in range(30):
        assert np.array_equal(native.attention(sources[i : i + 1], targets[i : i + 1], 1)[0], whole[i])


def test_words_are_aligned_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the file alone, as by the model: each layer, both rows; and the layer that suits the pairs is the same."""
    words = tokenizer(*TEXTS, size=300)
    plain, pairs = model(vocab_size=len(words), decoder_layers=3), some_pairs(8)
    exact, ours = (Translator(plain, words, {}, one) for one in (Plain(plain), engine(tmp_path, plain)))
    readings = [(layer, shift) for layer in (None, 1, 3) for shift in (False, True)]
    expected = [align(exact, pairs, layer=layer, shift=shift) for layer, shift in readings], best_layer(exact, pairs)
    monkeypatch.setattr(plain, "forward", lambda *given: pytest.fail("the model was asked"))
    found = [align(ours, pairs, layer=layer, shift=shift) for layer, shift in readings], best_layer(ours, pairs)
    assert found == expected
    with pytest.raises(InputError, match="there is no layer 4 in this decoder; give 1 to 3"):
        align(ours, pairs, layer=4)


LOOKED: dict[str, tuple[Any, str]] = {
    "a layer": (([[5]], [[5]], 2), "it has no layer 2 that looks at a source, but 2 of them"),
    "a token": (([[5]], [[WORDS]], 0), f"token {WORDS} is none of the {WORDS} that the model has"),
    "no token": (([[5], []], [[5], [6]], 0), "the lengths of the texts are not those of the tokens"),
    "too long": (([[5] * 41], [[6]], 0), "it has 41 tokens, and the model has 40 places"),
    "too few": (([[5], [6]], [[6]], 0), "there are 2 sources and 1 targets; give as many"),
}


@refused({name: said for name, (_, said) in LOOKED.items()})
def test_what_cannot_be_looked_at_is_refused(wrong: str, tmp_path: Path) -> None:
    engine(tmp_path, model()).native.attention(*LOOKED[wrong][0])


@refused({"gpt2": "it has no layer 0 that looks at a source, but 0 of them"})
def test_a_model_without_a_source_is_refused(wrong: str, tmp_path: Path) -> None:
    engine(tmp_path, model(wrong)).native.attention([[5]], [[6]], 0)
