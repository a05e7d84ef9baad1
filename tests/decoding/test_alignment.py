"""Word alignments: those of models whose right answer is known, and the measures around them."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from kit import Pairs, pad, teach, tokenizer
from qkv.decoding import Translator
from qkv.decoding.alignment import (
    Readout,
    align,
    alignment_error_rate,
    best_layer,
    both_readings,
    lexical_posteriors,
    merged,
    save_readout,
    strongest,
    to_pharaoh,
    words_of,
)
from qkv.errors import InputError
from qkv.look import record_attention
from qkv.models import (
    Convolutional,
    ConvolutionalConfig,
    Model,
    Recurrent,
    RecurrentConfig,
    Transformer,
    TransformerConfig,
)
from qkv.text.tokenizer import BOS, EOS

WORDS = ["the", "dog", "plays", "in", "snow", "and", "two", "cats", "sleep", "here"]
TOKENIZER = tokenizer(*WORDS, size=330)  # a word is one token
Make = Callable[..., Model]


def some_pairs(count: int, seed: int, *, backwards: bool) -> Pairs:
    rng = random.Random(seed)
    sources = [rng.sample(WORDS, rng.randint(2, 4)) for _ in range(count)]
    return [(" ".join(words), " ".join(words[::-1] if backwards else words)) for words in sources]


def trained(model: Model, steps: int, *, backwards: bool) -> Translator:
    """Taught to copy its source, or to write it word by word from its end; seconds."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        sides = list(zip(*some_pairs(32, step, backwards=backwards), strict=True))
        src, tgt = (TOKENIZER.encode_batch(side) for side in sides)
        teach(model, optimiser, pad([*ids, EOS] for ids in src), pad([BOS, *ids, EOS] for ids in tgt))
    return Translator(model, TOKENIZER, {})


def transformer(**others: object) -> Model:
    torch.manual_seed(1)
    sizes = {"d_model": 32, "d_ff": 64, "n_heads": 1, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    return Transformer(TransformerConfig(vocab_size=len(TOKENIZER), max_length=40, norm="pre", **(sizes | others)))


def recurrent(**others: object) -> Model:
    torch.manual_seed(1)
    sizes = {"d_model": 48, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    return Recurrent(RecurrentConfig(vocab_size=len(TOKENIZER), max_length=40, **(sizes | others)))


def convolutional(**others: object) -> Model:
    torch.manual_seed(1)
    sizes = {"d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    return Convolutional(ConvolutionalConfig(vocab_size=len(TOKENIZER), max_length=40, **(sizes | others)))


@pytest.mark.parametrize(
    ("make", "steps", "backwards"),
    [(transformer, 200, False), (recurrent, 150, True), (convolutional, 100, True)],
)
def test_a_model_that_copies_or_reverses_is_aligned_exactly(
    make: Make, steps: int, backwards: bool, tmp_path: Path
) -> None:
    """The layer is chosen without the right answers, which are i-i and (n-1-i)-i, and kept in the model folder."""
    translator = trained(make(), steps, backwards=backwards)
    chosen = best_layer(translator, some_pairs(200, 10**6, backwards=backwards))
    assert chosen.agreement > 0.9
    save_readout(tmp_path, chosen)
    translator.folder = tmp_path
    pairs = some_pairs(50, 10**7, backwards=backwards)
    for (source, _), links in zip(pairs, align(translator, pairs), strict=True):
        n = len(source.split())
        assert links == sorted((n - 1 - i if backwards else i, i) for i in range(n))


@pytest.fixture(scope="module")
def untrained() -> Translator:
    """Three layers of two heads with random weights."""
    return Translator(transformer(decoder_layers=3, n_heads=2), TOKENIZER, {})


@pytest.mark.parametrize("make", [transformer, recurrent, convolutional])
def test_the_rows_are_those_that_attention_had(make: Make) -> None:
    """Against `record_attention` and sums by hand; "xyz" is several tokens, which count as one word."""
    translator = Translator(make(decoder_layers=2), TOKENIZER, {})
    source, target = "the xyz dog", "xyz snow"
    words = [words_of(translator, [text])[0] for text in (source, target)]
    src, tgt = ([id_ for word in side for id_ in word] for side in words)
    assert (src, tgt) == (TOKENIZER.encode(source), TOKENIZER.encode(target))
    with record_attention(translator) as maps, torch.no_grad():
        translator.model(torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]]))
    layers = [torch.cat(calls, dim=2)[0] for name, calls in maps.calls.items() if "memory_attention" in name]
    (found,) = both_readings(translator, [words[0]], [words[1]], list(range(len(layers))))
    assert found.shape == (2, len(layers), 2, 3)
    owner = [[i for i, word in enumerate(side) for _ in word] for side in words]
    for shift, layer, i, j in itertools.product((0, 1), range(len(layers)), range(2), range(3)):
        rows = [t for t, word in enumerate(owner[1]) if word == i]
        columns = [s for s, word in enumerate(owner[0]) if word == j]
        seen = layers[layer].mean(dim=0)
        expected = sum(seen[t + shift, s].item() for t in rows for s in columns) / len(rows)
        assert found[shift, layer, i, j].item() == pytest.approx(expected, abs=1e-6)


def test_neighbours_in_a_batch_change_nothing(untrained: Translator) -> None:
    pairs = [*some_pairs(20, 5, backwards=True), ("", "the dog"), ("dog", ""), ("xyz " * 6, "the")]
    together = align(untrained, pairs, layer=2, shift=True)
    assert together == [align(untrained, [pair], layer=2, shift=True)[0] for pair in pairs]
    assert together[20:22] == [[], []]
    assert align(untrained, []) == []


def test_a_threshold_leaves_out_what_is_not_clear() -> None:
    weights = np.array([[0.1, 0.6, 0.0], [0.4, 0.3, 0.3]], np.float32)
    assert strongest(weights) == [(0, 1), (1, 0)]
    assert strongest(weights, 0.5) == [(1, 0)]


def test_parts_of_words_are_put_together() -> None:
    """Two target words of 1 and 2 parts, two source words of 2 and 1 parts, then </s>."""
    weights = np.array([[[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.1, 0.1, 0.8, 0.0]]], np.float32)
    expected = [[[0.3, 0.3], [(0.6 + 0.2) / 2, (0.2 + 0.8) / 2]]]
    np.testing.assert_allclose(merged(weights, [1, 2], [2, 1]), expected, rtol=1e-6)


# -- the lexical model -----------------------------------------------------------------------------------------------


def by_enumeration(pairs: list[tuple[list[str], list[str]]], rounds: int) -> list[list[list[float]]]:
    """IBM model 1 as it is defined: every alignment of every pair with its probability, in exact fractions."""
    t: dict[tuple[str, str], Fraction] = {
        (s, w): Fraction(1) for source, target in pairs for s in source for w in target
    }
    posteriors: list[list[list[float]]] = []
    for _ in range(rounds):
        counts: Counter[tuple[str, str]] = Counter()
        posteriors = []
        for source, target in pairs:
            table = [[Fraction(0)] * len(source) for _ in target]
            chances = {}
            for a in itertools.product(range(len(source)), repeat=len(target)):
                chance = Fraction(1)
                for j, i in enumerate(a):
                    chance *= t[source[i], target[j]]
                chances[a] = chance
            whole = sum(chances.values())
            for a, chance in chances.items():
                for j, i in enumerate(a):
                    table[j][i] += chance / whole
                    counts[source[i], target[j]] += chance / whole  # type: ignore[assignment]
            posteriors.append([[float(p) for p in row] for row in table])
        totals = {s: sum(count for (other, _), count in counts.items() if other == s) for s, _ in counts}
        t = {(s, w): count / totals[s] for (s, w), count in counts.items()}  # type: ignore[misc]
    return posteriors


def test_the_lexical_model_is_that_of_the_definition() -> None:
    pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book"), ("ja", "yes yes")]
    words = [(source.split(), target.split()) for source, target in pairs]
    for found, expected in zip(lexical_posteriors(words), by_enumeration(words, 5), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


# -- measures and files ----------------------------------------------------------------------------------------------


def test_alignment_error_rate_worked_by_hand() -> None:
    """A has 3 links, S 2, both of them found: 1 - (2 + 2) / 5; if the third is possible, 1 - (2 + 3) / 5."""
    found, sure = [(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 1)]
    assert alignment_error_rate(found, sure) == pytest.approx(0.2)
    assert alignment_error_rate(found, sure, [(2, 2), (3, 3)]) == pytest.approx(0.0)
    assert alignment_error_rate([(0, 1)], sure) == 1
    assert alignment_error_rate([], []) == 0


def test_pharaoh_has_the_source_first() -> None:
    assert to_pharaoh([(1, 2), (0, 0)]) == "0-0 1-2"
    assert to_pharaoh([]) == ""


def test_the_folders_choice_counts_unless_another_is_given(untrained: Translator, tmp_path: Path) -> None:
    pairs = some_pairs(20, 7, backwards=False)
    plain = align(untrained, pairs)
    assert plain == align(untrained, pairs, layer=2, shift=False), "the last layer but one of three"
    translator = Translator(untrained.model, TOKENIZER, {})
    translator.folder = tmp_path
    save_readout(tmp_path, Readout(layer=1, shift=True, agreement=0.5))
    tuned = align(translator, pairs)
    assert tuned == align(untrained, pairs, layer=1, shift=True)
    assert plain != tuned
    assert align(translator, pairs, layer=2) == plain


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [recurrent(attention="none"), convolutional(attention="none")])
def test_a_model_without_attention_is_refused(model: Model) -> None:
    with pytest.raises(InputError, match=r"model has no attention over the source, .*; use a model with attention"):
        align(Translator(model, TOKENIZER, {}), [("the dog", "the dog")])


def test_mistakes_are_said_in_words(untrained: Translator, tmp_path: Path) -> None:
    for layer in (0, 4, -1):
        with pytest.raises(InputError, match=f"there is no layer {layer} in this decoder; give 1 to 3"):
            align(untrained, [("the", "dog")], layer=layer)
    with pytest.raises(InputError, match=r"'the the .* has 51 tokens, the model takes 40; align shorter ones"):
        align(untrained, [("the " * 50, "dog")])
    with pytest.raises(InputError, match="no pair with words on both sides"):
        best_layer(untrained, [("", "dog"), ("the", "")])
    translator = Translator(untrained.model, TOKENIZER, {})
    translator.folder = tmp_path
    for damaged in (
        "{",
        "[]",
        '{"layer": "two", "shift": true}',
        '{"shift": true}',
        '{"layer": 1, "shift": 1, "x": 2}',
    ):
        (tmp_path / "alignment.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError, match=r"alignment\.json is damaged; write it again with qkv align --tune"):
            align(translator, [("the", "dog")])
