"""The native searches: in float32 those of `decoding`, token for token; in 8 bits the same whatever stands beside."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kit import refused, some_rows
from native_engine import FORMS, PATHS, POSITIONS, WORDS, engine, halved, model, same, tokens
from qkv.convert.native import ACTIVATIONS
from qkv.decoding import Plain, Search
from qkv.engines import in_words
from qkv.engines.native.asked import NativeFound
from qkv.engines.native.library import is_built
from qkv.engines.quantize import tokens_agree
from qkv.models import Transformer
from qkv.text.tokenizer import EOS

pytestmark = pytest.mark.skipif(not is_built(), reason="the native engine is not built")
# -- float32 -----------------------------------------------------------------------------------------------------------

at_least, prefix = st.integers(0, 9), st.lists(st.integers(4, 11), max_size=4)
searches = st.one_of(
    st.builds(
        lambda beam, n, **more: Search(beam=beam, n_best=min(beam, n), **more),
        beam=st.integers(1, 7), n=st.integers(1, 7), alpha=st.sampled_from([-1.0, 0.0, 0.6, 1.0]),
        no_repeat=st.integers(0, 3), ends=st.sampled_from(["forced", "cut", "never"]), at_least=at_least, prefix=prefix,
    ),
    st.builds(
        Search, beam=st.just(1), sampling=st.just(True), n_best=st.integers(1, 3), seed=st.integers(0, 9),
        temperature=st.sampled_from([0.2, 1.0, 2.0]), top_k=st.sampled_from([0, 1, 5]),
        top_p=st.sampled_from([0.5, 0.9, 1.0]), no_repeat=st.integers(0, 2), ends=st.sampled_from(["forced", "cut"]),
        at_least=at_least, prefix=prefix,
    ),
)  # fmt: skip


@settings(max_examples=40, deadline=None, phases=[Phase.reuse, Phase.generate])  # shrinking takes minutes
@given(
    name=st.sampled_from(FORMS), norm=st.sampled_from(["post", "pre"]), activation=st.sampled_from(ACTIVATIONS),
    position=st.sampled_from(POSITIONS), bias=st.booleans(), tied=st.sampled_from(["all", "decoder", "none"]),
    heads=st.integers(1, 5), head_width=st.integers(1, 40), d_model=st.integers(4, 40).map(lambda half: 2 * half),
    d_ff=st.integers(1, 90), layers=st.integers(1, 3), words=st.integers(12, 200), held=st.sampled_from(PATHS),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6), limit=st.integers(1, 16), how=searches,
)  # fmt: skip
def test_float32_finds_what_the_plain_search_finds(
    name: str, norm: str, activation: str, position: str, bias: bool, tied: str, heads: int, head_width: int,
    d_model: int, d_ff: int, layers: int, words: int, held: str, lengths: list[int], limit: int, how: Search,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Of any sizes and options, on each path; limits differ from text to text."""
    position = position if name == "transformer" or "36" not in position else "learned(length=40, offset=2)"
    plain = model(
        name, norm=norm, activation=activation, position=position, attention_bias=bias, n_heads=heads, d_k=head_width,
        d_model=d_model, d_ff=d_ff, layers=layers, encoder_layers=layers, decoder_layers=layers, vocab_size=words,
        output_bias=bias, tied=tied if name == "transformer" else tied == "all",
    )  # fmt: skip
    rng = np.random.default_rng(1)
    sources = [rng.integers(4, words, size=n).tolist() for n in lengths]
    limits = [1 + (limit + 3 * i) % 16 for i in range(len(sources))]
    ours = engine(tmp_path_factory.mktemp("native"), plain, held=held)
    same(ours.decode(sources, limits, how), Plain(plain).decode(sources, limits, how))


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_trained_model_translates_the_same(
    model: Transformer, sources: list[list[int]], beam: int, tmp_path: Path
) -> None:
    """In float32 all n best of all sentences; in 8 bits most tokens, though many choices of this model are near."""
    given, how = [row[:-1] for row in sources], Search(beam=beam, n_best=beam)
    limits = [len(row) + 50 for row in given]
    exact = Plain(model).decode(given, limits, how)
    same(engine(tmp_path, model).decode(given, limits, how), exact)
    found = engine(tmp_path, model, 8).decode(given, limits, how)
    assert tokens_agree([some[0].tokens for some in found], [some[0].tokens for some in exact]) > 0.9


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("held", PATHS)
def test_sixteen_bits_find_what_rounded_weights_find(name: str, held: str, tmp_path: Path) -> None:
    plain, rows = model(name, d_model=48), some_rows(20, 1, range(4, WORDS))
    exact = Plain(halved(plain))
    for how in (Search(beam=1), Search(beam=4, n_best=4)):
        same(engine(tmp_path, plain, 16, held).decode(rows, [9] * 20, how), exact.decode(rows, [9] * 20, how))


@refused({"large": r"a weight of decoder\.0\.expand is 70000, and 16 bits hold at most 65,504; use 32 bits"})
def test_a_weight_that_has_no_sixteen_bits_is_refused(wrong: str, tmp_path: Path) -> None:
    plain = model("gpt2")
    plain.decoder.blocks[0].feed_forward.expand.weight.data[3, 5] = 70_000
    engine(tmp_path, plain, 16)


def test_a_text_that_may_not_go_on(tmp_path: Path) -> None:
    """Every word is banned at last, and an end there is not: greedy goes on with what is no word, a beam is empty."""
    plain = model(vocab_size=8)
    for how in (Search(beam=1, no_repeat=1, ends="never"), Search(beam=3, no_repeat=1, ends="never")):
        exact, found = (each.decode([[5, 6]], [12], how) for each in (Plain(plain), engine(tmp_path, plain)))
        assert tokens(found) == tokens(exact)


def test_engines_say_how_they_compute(tmp_path: Path) -> None:
    plain = model()
    assert in_words(engine(tmp_path, plain, 8, "plain")) == "int8 (8 bits by the native engine, plain)"
    assert in_words(engine(tmp_path, plain, 32, "avx2")) == "float32 (32 bits by the native engine, avx2)"
    assert in_words(Plain(plain)) == "plain (the model as it is, by torch)"


# -- any batch, order, neighbour, number of threads --------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("held", PATHS)
def test_neighbours_order_and_threads_change_no_bit(name: str, bits: int, held: str, tmp_path: Path) -> None:
    count = 20 if held == "plain" else 50  # which is slow
    rows = [row * (1 + i % 3) for i, row in enumerate(some_rows(count, 1, range(4, WORDS)))]
    limits = [3 + i % 12 for i in range(len(rows))]
    native = engine(tmp_path, model(name, d_model=48), bits, held).native

    def found(order: Sequence[int], threads: int = 1, **how: Any) -> dict[int, NativeFound]:
        given = [[*rows[i], EOS] for i in order]
        rules = {"no_repeat": 0, "ends": 0, "first": 1, "end": EOS, "never": [0, 1, 3], "threads": threads}
        several = native.search(given, [limits[i] for i in order], **(rules | how))
        return dict(zip(order, several, strict=True))

    everyone = range(len(rows))
    numbers = np.random.default_rng(1).random((len(rows), 2, max(limits)))
    for how in ({"beam": 1}, {"beam": 4}, {"beam": 3, "no_repeat": 2}):
        whole = found(everyone, **how)
        assert all(found([i], **how)[i] == whole[i] for i in everyone)
        assert found(everyone[::-1], **how) == whole
        assert found(everyone, 3, **how) == whole
        assert any(one.texts != whole[0].texts for one in whole.values())
    drawing = {"samples": 2, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    whole = found(everyone, numbers=numbers, **drawing)
    for i in everyone:
        assert found([i], numbers=numbers[i : i + 1, :, : limits[i]], **drawing)[i] == whole[i]
    callers = [threading.Thread(target=lambda: several.append(found(everyone, 2, beam=4))) for _ in range(3)]
    several: list[Any] = []
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert several == [found(everyone, beam=4)] * 3


def test_more_sentences_than_go_together(tmp_path: Path) -> None:
    rows = some_rows(300, 1, range(4, WORDS))
    plain, limits = model(), [9] * 300
    ours = engine(tmp_path, plain)
    for how in (Search(beam=1), Search(beam=5)):
        assert tokens(ours.decode(rows, limits, how)) == tokens(Plain(plain).decode(rows, limits, how))


# -- what is wrong -----------------------------------------------------------------------------------------------------

RULES: dict[str, Any] = {"no_repeat": 0, "ends": 0, "first": 1, "end": EOS, "never": [0]}
ASKED: dict[str, tuple[Any, str]] = {
    "an id": (([[5, WORDS]], [4], {}), f"token {WORDS} is none of the {WORDS} that the model has"),
    "a negative id": (([[5, -1]], [4], {}), "token -1 is none of the"),
    "no id": (([[5], []], [4, 4], {}), "the lengths of the sentences are not those of the tokens"),
    "an end": (([[5]], [4], {"end": WORDS}), f"token {WORDS} is none of the"),
    "a first": (([[5]], [4], {"first": -7}), "token -7 is none of the"),
    "a token that never comes": (([[5]], [4], {"never": [1, 2, 1000]}), "token 1000 is none of the"),
    "too long": (([[5] * 41], [4], {}), "it has 41 tokens and may go on for 4, and the model has 40 places"),
    "too far": (([[5]], [41], {}), "it has 1 tokens and may go on for 41, and the model has 40 places"),
    "no limit": (([[5]], [0], {}), "a text may have 0 tokens, which is no limit"),
    "no beam": (([[5]], [4], {"beam": 0}), "there is no such search"),
    "a word to begin with": (([[5]], [4], {"prefix": [5, WORDS]}), f"token {WORDS} is none of the"),
    "less than nothing": (([[5]], [4], {"at_least": -1}), "there is no such search"),
    "another end": (([[5]], [4], {"ends": 3}), "there is no such search"),
    "no numbers": (([[5]], [4], {"samples": 2}), r"numbers \(0,\) are not \(1, 2, 4\)"),
}


@refused({name: said for name, (_, said) in ASKED.items()})
def test_what_cannot_be_searched_is_refused(wrong: str, tmp_path: Path) -> None:
    sources, limits, more = ASKED[wrong][0]
    engine(tmp_path, model()).native.search(sources, limits, **(RULES | more))


@refused({"reads": "the model of this file reads, and does not write"})
def test_a_model_that_reads_does_not_write(wrong: str, tmp_path: Path) -> None:
    engine(tmp_path, model("bert")).native.search([[5]], [4], **RULES)
