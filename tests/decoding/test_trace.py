"""The trace of a search: every step against what the model itself says of every continuation."""

import itertools
import random

import pytest
import torch

from kit import teach_to_copy, tokenizer
from qkv.decoding import Translator, length_penalty
from qkv.decoding.alignment import align
from qkv.decoding.hypothesis import NEVER
from qkv.decoding.trace import SearchStep, Trace, trace
from qkv.errors import InputError
from qkv.models import Model, Recurrent, RecurrentConfig, Transformer, TransformerConfig
from qkv.text.tokenizer import BOS, EOS

WORDS = ["the", "dog", "plays", "in", "snow", "and", "two", "cats"]
TOKENIZER = tokenizer(*WORDS, size=310)  # some words are several tokens
TEXT = "two cats and the dog"
LIMIT = 20  # tokens, the end included; at it, every hypothesis must end


def transformer() -> Model:
    sizes = {"d_model": 32, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}
    return Transformer(TransformerConfig(vocab_size=len(TOKENIZER), max_length=LIMIT + 1, **sizes))


def recurrent() -> Model:
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0, "attention": "none"}
    return Recurrent(RecurrentConfig(vocab_size=len(TOKENIZER), max_length=LIMIT + 1, **sizes))


@pytest.fixture(scope="module", params=[transformer, recurrent])
def translator(request: pytest.FixtureRequest) -> Translator:
    """On the way to copying its source: clear choices, and mistakes."""
    torch.manual_seed(1)
    rng = random.Random(1)

    def some(_: int) -> list[list[int]]:
        return [TOKENIZER.encode(" ".join(rng.sample(WORDS, rng.randint(2, 5)))) for _ in range(24)]

    return Translator(teach_to_copy(request.param(), some, steps=60, rate=1e-2), TOKENIZER, {})


@torch.no_grad()
def next_log_p(translator: Translator, traced: Trace, tokens: list[str]) -> torch.Tensor:
    """log p of every next token, from the whole model at once: no cache, no state."""
    ids = [NUMBERS[token] for token in tokens]
    logits = translator.model(torch.tensor([[*traced.source_ids, EOS]]), torch.tensor([[BOS, *ids]])).logits[0, -1]
    logits[list(NEVER)] = -torch.inf
    return logits.log_softmax(dim=-1)


PIECES = TOKENIZER.pieces(range(len(TOKENIZER)))
NUMBERS = {piece: number for number, piece in enumerate(PIECES)}


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_every_step_keeps_the_best_continuations(translator: Translator, alpha: float) -> None:
    """The 2 * beam best of all are looked at; those of them that do not end live on, in their order. Of all that end,
    the `beam` best are what is found."""
    beam = 3
    traced = trace(translator, TEXT, beam=beam, n_best=2, alpha=alpha)
    assert not traced.translated.looped
    live, finished = [(list[str](), 0.0)], list[list[float]]()
    for number, step in enumerate(traced.steps, start=1):
        found = []
        for parent, (tokens, total) in enumerate(live):
            for token, log_p in enumerate(next_log_p(translator, traced, tokens).tolist()):
                found.append((total + log_p, parent, [*tokens, PIECES[token]]))
        if number == LIMIT:
            found = [one for one in found if one[2][-1] == "</s>"]
        best = sorted(found, key=lambda one: -one[0])[: 2 * beam]
        going = [one for one in best if one[2][-1] != "</s>"][:beam]
        penalty = length_penalty(number, alpha)
        if step.live:
            assert [(one.parent, one.tokens) for one in step.live] == [one[1:] for one in going]
            assert [one.score for one in step.live] == pytest.approx([one[0] / penalty for one in going], abs=1e-4)
        finished.append([one[0] / penalty for one in best[:beam] if one[2][-1] == "</s>"])
        live = [(one[2], one[0]) for one in going]
    least = sorted(itertools.chain(*finished))[-beam:][0]
    for step, scores in zip(traced.steps, finished, strict=True):
        expected = [score for score in scores if score >= least]
        assert [one.score for one in step.finished] == pytest.approx(expected, abs=1e-4)
    assert not traced.steps[-1].live


@pytest.mark.parametrize("how", [{}, {"beam": 1}, {"beam": 4, "n_best": 3}, {"sampling": True, "seed": 3, "n_best": 2}])
def test_watching_changes_nothing(translator: Translator, how: dict[str, int]) -> None:
    for text in (TEXT, "snow snow", "cats xyz"):
        traced = trace(translator, text, **how)
        assert traced.translated == translator.translate(text, **how)
        ended = [one for step in traced.steps for one in step.finished]
        assert {one.score for one in traced.translated.alternatives} <= {one.score for one in ended}
        assert_parents_fit(traced.steps)
        if not (how.get("sampling") or traced.translated.looped):
            penalty = length_penalty(len(traced.token_scores), 1.0) if how.get("beam", 5) > 1 else 1
            assert sum(traced.token_scores) / penalty == pytest.approx(traced.translated.score, abs=1e-4)


def assert_parents_fit(steps: list[SearchStep]) -> None:
    for before, step in itertools.pairwise(steps):
        for one in step.live:
            assert before.live[one.parent].tokens == one.tokens[:-1]


def test_a_sentence_that_looped_shows_its_second_search() -> None:
    torch.manual_seed(4)
    translator = Translator(transformer(), TOKENIZER, {})  # never trained: it repeats itself
    traced = trace(translator, TEXT, beam=2)
    assert traced.translated.looped
    assert_parents_fit(traced.steps)
    assert len(traced.target_tokens) == len(traced.steps)


def test_tokens_make_words_and_words_are_aligned(translator: Translator) -> None:
    traced = trace(translator, f" {TEXT}  xyz ")
    assert traced.text == f"{TEXT} xyz"
    assert [word.text for word in traced.source_words] == traced.text.split()
    for words, tokens in ((traced.source_words, traced.source_tokens), (traced.target_words, traced.target_tokens)):
        assert [number for word in words for number in word.tokens] == list(range(len(tokens) - 1))
        assert tokens[-1] == "</s>"
    assert "".join(traced.target_tokens[:-1]).replace("▁", " ").strip() == traced.translated.text
    if isinstance(translator.model, Transformer):
        assert [traced.alignment] == align(translator, [(traced.text, traced.translated.text)])
    else:
        assert traced.alignment == []


def test_mistakes_are_said_in_words(translator: Translator) -> None:
    with pytest.raises(InputError, match="there is no text to look at; give a sentence"):
        trace(translator, " \n")
    with pytest.raises(InputError, match=r"has \d+ tokens and would be translated in parts, since the model takes 20"):
        trace(translator, "dog " * 40)
    with pytest.raises(InputError, match=r"search: unknown key 'baem'"):
        trace(translator, TEXT, baem=3)
