"""Texts that are read one way, and one after another: what is hidden of them, and what the segments say."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from kit import batch, close, refused, tiny_model
from qkv.attention import LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE, TARGET
from qkv.config import read_toml
from qkv.contents import recipes
from qkv.data import Batch, Place, generator
from qkv.objectives import Asked, Either, hiding, objective
from qkv.objectives.smoothing import smoothed_cross_entropy
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = Tokenizer.train([LETTERS], kind="characters", vocab_size=300, specials=("<mask>",))
MASK, V = WORDS.special("<mask>"), len(WORDS)
A, Z = WORDS.encode("a")[-1], WORDS.encode("z")[-1]


def passage(*sentences: str, number: int = 0) -> list[list[int]]:
    ids = [WORDS.encode(sentence) for sentence in sentences]
    tokens = [n for sentence in ids for n in sentence]
    return [tokens, [len(sentence) for sentence in ids], [0] * len(tokens), [0, number, 60]]


PASSAGES = batch(passage("abc", "defg", "hi"), passage("klmno"), passage("p"), passage("qr", "stuvw"))
TEXTS = [(WORDS.encode(source), WORDS.encode(target)) for source, target in (("abcd", "xyz"), ("e", "uvwxyzabc"))]
PAIRS = batch(*([[*source, EOS], [BOS, *target, EOS]] for source, target in TEXTS))


def ask(spec: str, some: Batch, n: int = 0) -> Asked:
    return objective(spec).knowing(WORDS).prepare(some, generator(1, Place(0, n)))


def before(asked: Asked) -> Tensor:
    """The text without its holes."""
    return torch.where(asked.labels == PAD, asked.inputs["ids"], asked.labels)


def real(row: Tensor) -> list[int]:
    return row[row != PAD].tolist()


# -- n-grams -----------------------------------------------------------------------------------------------------------


def test_four_of_five_choices_are_one_token_and_the_others_two_or_three() -> None:
    """Dong et al. 2019, section 2.3. Over so long a row that choices hardly ever touch."""
    free = np.ones((200, 2000), bool)
    draw = hiding.at_random(torch.Size(free.shape), torch.Generator().manual_seed(1))
    hidden = hiding.spans(free, free, np.full(200, 20), draw, hiding.NGRAMS)
    assert (hidden.sum(axis=1) == 20).all()
    edges = np.diff(hidden.astype(int), axis=1, prepend=0, append=0)
    lengths = Counter((np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]).tolist())
    total = sum(lengths.values())
    for length, share in ((1, 0.8), (2, 0.1), (3, 0.1)):
        assert lengths[length] / total == pytest.approx(share, abs=0.03)


# -- one way -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "segment"), [("left_to_right_lm", LEFT_TO_RIGHT), ("right_to_left_lm", RIGHT_TO_LEFT)]
)
def test_all_of_a_text_is_read_one_way(spec: str, segment: int) -> None:
    """And what is hidden is what masked_lm hides, drawn by the same numbers."""
    asked, both = ask(spec, PASSAGES), ask("masked_lm", PASSAGES)
    assert (asked.inputs["segments"] == segment).all()
    assert torch.equal(asked.inputs["ids"], both.inputs["ids"])
    assert torch.equal(asked.labels, both.labels)


@pytest.mark.parametrize(("spec", "changed"), [("left_to_right_lm", 1), ("right_to_left_lm", -1)])
def test_a_hidden_word_is_told_by_one_side(spec: str, changed: int) -> None:
    """What stands on the other side of the hole changes nothing of what is said there."""
    model = tiny_model("unilm", vocab_size=V, layers=2).eval()
    asked = ask(f"{spec}(rate=0.1, mask=1.0, keep=0.0)", batch(passage("abcdefghijkl")))
    ((_, hole),) = (asked.labels != PAD).nonzero().tolist()
    for place in range(1, 12):
        ids = asked.inputs["ids"].clone()
        ids[0, place] = Z
        same = torch.allclose(model(ids, segments=asked.inputs["segments"]).hidden[0, hole],
                              model(**asked.inputs).hidden[0, hole], atol=1e-7)  # fmt: skip
        assert same == ((place - hole) * changed > 0), place


# -- one text after another --------------------------------------------------------------------------------------------


def test_a_passage_is_cut_in_two_between_its_sentences() -> None:
    """Over many draws every border is met; a single sentence is cut between tokens, a single token is the target."""
    cuts: list[set[int]] = [set() for _ in range(4)]
    for n in range(40):
        asked = ask("sequence_to_sequence_lm", PASSAGES, n)
        for row, (ids, segments) in enumerate(zip(before(asked), asked.inputs["segments"], strict=True)):
            told = real(ids)
            first, second = (told.index(EOS), len(told) - 1)
            whole = [n for n in told[1:] if n != EOS]
            assert told[0] == BOS
            assert told[second] == EOS
            assert whole == PASSAGES.columns[0][row, : len(whole)].tolist()
            assert segments[: len(told)].tolist() == [SOURCE] * (first + 1) + [TARGET] * (len(told) - first - 1)
            cuts[row].add(first - 1)
    assert cuts == [{3, 7}, {1, 2, 3, 4}, {0}, {2}]


def test_words_of_both_texts_are_hidden_and_no_special_token() -> None:
    asked = ask("sequence_to_sequence_lm(rate=1.0, mask=1.0, keep=0.0)", PASSAGES)
    ids, text = asked.inputs["ids"], before(asked)
    assert torch.equal(ids == MASK, text >= A)
    assert {*asked.inputs["segments"][ids == MASK].tolist()} == {SOURCE, TARGET}


# -- masked translation ------------------------------------------------------------------------------------------------


def test_source_and_target_are_one_text() -> None:
    asked = ask("masked_translation", PAIRS)
    for row, (src, tgt) in enumerate(TEXTS):
        told = [BOS, *src, EOS, *tgt, EOS]
        assert real(before(asked)[row]) == told
        segments = asked.inputs["segments"][row, : len(told)].tolist()
        assert segments == [SOURCE] * (len(src) + 2) + [TARGET] * (len(tgt) + 1)


def test_seven_of_ten_words_of_the_target_are_asked_for_and_its_end_is_one_of_them() -> None:
    """Of n tokens, the end counted, max(1, round(0.7 n)); each as often as another, and none of the source."""
    times = [Counter[int](), Counter[int]()]
    for n in range(400):
        asked = ask("masked_translation", PAIRS, n)
        hidden = asked.labels != PAD
        assert hidden.sum(dim=1).tolist() == [3, 7]  # of 4 and of 10
        assert (asked.inputs["segments"][hidden] == TARGET).all()
        for row, place in hidden.nonzero().tolist():
            times[row][place] += 1
    assert sorted(times[0]) == [6, 7, 8, 9]
    assert sorted(times[1]) == [*range(3, 13)]
    for row, share in ((0, 0.75), (1, 0.7)):
        assert all(count / 400 == pytest.approx(share, abs=0.1) for count in times[row].values())
    assert ask("masked_translation(rate=0.001)", PAIRS).count == 2


def test_with_a_rate_of_one_a_model_is_asked_for_the_whole_target_by_holes() -> None:
    asked = ask("masked_translation(rate=1.0, mask=1.0, keep=0.0)", PAIRS)
    text = before(asked)
    is_target = (asked.inputs["segments"] == TARGET) & (text != PAD)
    assert torch.equal(asked.inputs["ids"] == MASK, is_target)
    assert torch.equal(asked.labels, text.masked_fill(~is_target, PAD))
    assert asked.count == 4 + 10


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_hidden_words_one_by_one(smoothing: float) -> None:
    model = tiny_model("unilm", vocab_size=V).eval()
    asked = ask(f"masked_translation(label_smoothing={smoothing})", PAIRS)
    outputs = model(**asked.inputs)
    loss = objective(f"masked_translation(label_smoothing={smoothing})").loss(outputs, asked)
    total, likelihood = torch.zeros(()), torch.zeros(())
    for row, place in (asked.labels != PAD).nonzero().tolist():
        logits, label = outputs.logits[row, place], asked.labels[row, place]
        total += smoothed_cross_entropy(logits[None], label[None], smoothing=smoothing, form="fairseq", pad=PAD)
        likelihood -= logits.log_softmax(dim=0)[label]
    close(loss.total, total)
    close(loss.parts["likelihood"], likelihood)


# -- by turns ----------------------------------------------------------------------------------------------------------


def test_the_recipe_asks_in_the_papers_shares() -> None:
    """A third both ways, a third one text after another, a sixth left to right, a sixth right to left."""
    recipe = objective(read_toml(recipes()["unilm-tiny"][0])["objective"])
    assert isinstance(recipe, Either)
    assert (recipe.weights / recipe.weights.sum()).tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6])
    asked = [one.prepare(PASSAGES, generator(1, Place())) for _, _, one in recipe.knowing(WORDS).parts]
    segments = [{*one.inputs["segments"][one.inputs["ids"] != PAD].tolist()} for one in asked]
    assert segments == [{0, 1}, {SOURCE, TARGET}, {LEFT_TO_RIGHT}, {RIGHT_TO_LEFT}]


@refused({
    "masked_translation(rate=0)": "rate=0",
    "masked_translation(label_smoothing=1.0)": "label_smoothing must be at least 0 and below 1",
    "masked_translation(unit='word')": "unit",
    "next_sentence + sequence_to_sequence_lm": "each put sentences in an order of their own",
})  # fmt: skip
def test_what_cannot_be_asked_is_refused(wrong: str) -> None:
    objective(wrong)


def test_windows_of_running_text_have_no_two_texts() -> None:
    with pytest.raises(ValueError, match="sequence_to_sequence_lm asks about the sentences of documents"):
        ask("sequence_to_sequence_lm", batch([WORDS.encode("abcdef")]))
