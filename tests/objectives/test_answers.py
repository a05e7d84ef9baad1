"""Objectives that ask for an answer to a text: what they prepare against plain loops, their losses by hand."""

import math
import struct
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import batch, close
from qkv.data import Batch, Place, generator
from qkv.models import Reading
from qkv.objectives import Asked, Classes, Cloze, Heads, Objective
from qkv.objectives.answers import Choices, Number, Spans, Tags, by_sentence
from qkv.positions import depths, relations
from qkv.text.tokenizer import PAD


def prepared(objective: Objective, given: Batch) -> Asked:
    return objective.prepare(given, generator(0, Place()))


# -- classes -----------------------------------------------------------------------------------------------------------

SENTENCES = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=5), min_size=1, max_size=5)


@settings(max_examples=80, deadline=None)
@given(st.lists(SENTENCES, min_size=1, max_size=5))
def test_sentences_are_cut_as_a_loop_does(texts: list[list[list[int]]]) -> None:
    found = by_sentence(batch(*([[*chain.from_iterable(text)], [*map(len, text)], [0]] for text in texts)))
    most, longest = max(map(len, texts)), max(len(one) for text in texts for one in text)
    expected = np.full((len(texts), most, longest), PAD)
    for row, text in enumerate(texts):
        for number, sentence in enumerate(text):
            expected[row, number, : len(sentence)] = sentence
    assert found.tolist() == expected.tolist()


def test_a_class_is_asked_of_a_text_or_of_its_sentences() -> None:
    plain = prepared(Classes(), batch([[5, 2, 7, 9, 2], [1]], [[8], [0]]))
    assert {name: value.tolist() for name, value in plain.inputs.items()} == {
        "ids": [[5, 2, 7, 9, 2], [8, 0, 0, 0, 0]],
        "segments": [[0, 0, 1, 1, 1], [0, 0, 0, 0, 0]],
    }
    assert (plain.labels.tolist(), plain.count) == ([1, 0], 2)
    cut = prepared(Classes(), batch([[5, 6, 7], [1, 2], [1]], [[8], [1], [0]]))
    assert cut.inputs["words"].tolist() == [[[5, 0], [6, 7]], [[8, 0], [0, 0]]]
    assert (cut.labels.tolist(), cut.count) == ([1, 0], 2)


def test_the_loss_of_classes_is_the_papers() -> None:
    """Eq. 12, by hand: logits 0 and log 3 give the probabilities 1/4 and 3/4."""
    logits, labels = torch.tensor([[0.0, math.log(3)]] * 3), torch.tensor([1, 0, 1])
    loss = Classes().loss(logits, Asked({}, labels, 3))
    assert float(loss.total) == pytest.approx(-2 * math.log(3 / 4) - math.log(1 / 4))
    assert float(loss.parts["accuracy"]) == 2
    smoothed = Classes(label_smoothing=0.2).loss(logits[:1], Asked({}, labels[:1], 1))
    assert float(smoothed.total) == pytest.approx(-0.9 * math.log(3 / 4) - 0.1 * math.log(1 / 4))
    with pytest.raises(ValueError, match="label_smoothing must be at least 0 and below 1, not 1"):
        Classes(label_smoothing=1.0)


# -- heads -------------------------------------------------------------------------------------------------------------


@st.composite
def sentence(draw: st.DrawFn) -> list[list[int]]:
    """Ids, words and heads: each word hangs on one before it, or is the root; and has one to three sub-words."""
    n = draw(st.integers(1, 6))
    heads = [0] + [draw(st.integers(1, place)) for place in range(1, n)]
    words = [word for word in range(n) for _ in range(draw(st.integers(1, 3)))]
    return [draw(st.lists(st.integers(4, 99), min_size=len(words), max_size=len(words))), words, heads]


@settings(max_examples=60, deadline=None)
@given(st.lists(sentence(), min_size=1, max_size=4))
def test_heads_are_asked_for_as_a_loop_would(rows: list[list[list[int]]]) -> None:
    asked = prepared(Heads(), batch(*rows))
    wide, most = max(len(row[0]) for row in rows), max(len(row[2]) for row in rows)
    tree = asked.inputs["tree"]
    for number, (ids, words, heads) in enumerate(rows):
        n, padding = len(ids), [PAD] * (wide - len(ids))
        assert asked.inputs["ids"][number].tolist() == ids + padding
        first = [words.index(word) for word in range(len(heads))]
        assert asked.inputs["first"][number].tolist() == first + [-1] * (most - len(heads))
        assert asked.labels[number].tolist() == heads + [-1] * (most - len(heads))
        assert tree.depth[number].tolist() == [int(depths(heads)[word]) for word in words] + padding
        between = [[int(relations(heads)[i, j]) for j in words] for i in words]
        assert tree.relation[number, :n, :n].tolist() == between
    assert asked.count == sum(len(row[2]) for row in rows)


def test_the_loss_of_heads_counts_real_words_only() -> None:
    """Two words and one: scores of 0 and log 3 among root and words, by hand."""
    scores = torch.zeros(2, 2, 3)
    scores[0, 0, 2] = scores[0, 1, 0] = math.log(3)  # the first word's head is the second, which is the root's
    labels = torch.tensor([[2, 1], [0, -1]])
    loss = Heads().loss(scores, Asked({}, labels, 3))
    expected = -math.log(3 / 5) - math.log(1 / 5) - math.log(1 / 3)
    assert float(loss.total) == pytest.approx(expected)
    assert float(loss.parts["accuracy"]) == 2  # of three equal scores the first is taken, here the right one


# -- cloze -------------------------------------------------------------------------------------------------------------


def test_a_question_is_asked_of_a_document() -> None:
    rows = ([[5, 6, 7], [3], [5], [5]], [[8], [3, 9], [8, 4], [4]])
    asked = prepared(Cloze(), batch(*rows))
    assert {name: value.tolist() for name, value in asked.inputs.items()} == {
        "document": [[5, 6, 7], [8, 0, 0]],
        "question": [[3, 0], [3, 9]],
    }
    candidates, answer = asked.labels
    assert (candidates.tolist(), answer.tolist(), asked.count) == ([[5, 0], [8, 4]], [[5], [4]], 2)


def test_the_loss_of_a_cloze_sums_the_weights_of_a_word() -> None:
    """Row 0: 7 has 0.3, and beats 6; row 1: 8 has 0.2, and loses to 9; row 2: both have 0, the first counts."""
    weights = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]])
    reading = Reading(weights.requires_grad_(), torch.tensor([[5, 6, 7], [8, 9, 8], [5, 6, 7]]))
    candidates, answers = torch.tensor([[6, 7, 0], [8, 9, 0], [6, 7, 0]]), torch.tensor([[7], [8], [6]])
    loss = Cloze().loss(reading, Asked({}, (candidates, answers), 3))
    assert loss.parts["accuracy"].item() == 2
    tiny = torch.finfo(torch.float32).tiny
    assert loss.total.item() == pytest.approx(-math.log(0.3) - math.log(0.2) - math.log(tiny), rel=1e-5)
    loss.total.backward()
    close(weights.grad[:2], torch.tensor([[0.0, 0.0, -1 / 0.3], [-5.0, 0.0, -5.0]]))
    assert weights.grad.isfinite().all()


# -- numbers, tags, spans, choices -------------------------------------------------------------------------------------


def halves(value: float) -> list[int]:
    """As Python itself writes a float: sign, exponent, fraction."""
    upper, lower = struct.unpack("<HH", struct.pack(">f", value)[::-1])[::-1]
    return [upper, lower]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9, width=32), min_size=1, max_size=5))
def test_numbers_come_back_from_their_halves(values: list[float]) -> None:
    asked = prepared(Number(), batch(*([[5, 2], halves(value)] for value in values)))
    assert asked.labels.tolist() == values
    assert asked.count == len(values)


def test_the_loss_of_a_number_is_its_squared_error() -> None:
    labels = torch.tensor([1.0, 4.0])
    assert float(Number().loss(torch.tensor([2.0, 1.0]), Asked({}, labels, 2)).total) == 1 + 9


def test_both_orders_of_two_texts_are_added() -> None:
    """Rows of three columns: the model reads all firsts, then all seconds; what it says of a pair is summed."""
    asked = prepared(Number(), batch([[5, 2, 6], [6, 2, 5], halves(3.0)], [[7, 2], [2, 7], halves(1.0)]))
    assert asked.inputs["ids"].tolist() == [[5, 2, 6], [7, 2, 0], [6, 2, 5], [2, 7, 0]]
    said = torch.tensor([1.0, 0.5, 1.5, 2.0])
    assert float(Number().loss(said, asked).total) == pytest.approx((2.5 - 3) ** 2 + (2.5 - 1) ** 2)


def test_tags_are_asked_at_the_first_sub_word() -> None:
    asked = prepared(Tags(), batch([[1, 5, 6, 7, 2], [1, 3], [2, 0]], [[1, 8, 2], [1], [1]]))
    assert asked.labels.tolist() == [[-100, 2, -100, 0, -100], [-100, 1, -100, -100, -100]]
    assert asked.count == 3
    logits = torch.zeros(2, 5, 3)
    logits[0, 1, 2] = logits[1, 1, 0] = math.log(3)
    loss = Tags().loss(logits, asked)
    assert float(loss.total) == pytest.approx(-math.log(3 / 5) - math.log(1 / 3) - math.log(1 / 5))
    assert float(loss.parts["accuracy"]) == 2  # of three equal ones the first is taken, here the right one


def test_the_loss_of_a_span_is_half_of_both_ends() -> None:
    asked = prepared(Spans(), batch([[1, 5, 6, 2], [1, 2]], [[1, 7, 2], [0, 0]]))
    assert (asked.labels.tolist(), asked.count) == ([[1, 2], [0, 0]], 2)
    logits = torch.zeros(2, 2, 4)
    logits[1, :, 3] = -torch.inf  # padding
    logits[0, 0, 1] = math.log(3)
    loss = Spans().loss(logits, asked)
    expected = -math.log(3 / 6) - math.log(1 / 4) - 2 * math.log(1 / 3)
    assert float(loss.total) == pytest.approx(expected / 2)
    assert float(loss.parts["accuracy"]) == 1


def test_choices_are_read_one_by_one_and_weighed_together() -> None:
    """Three choices and two: five texts; a softmax over those of each row."""
    rows = ([[1, 5, 2, 1, 6, 7, 2, 8], [3, 4, 1], [1]], [[1, 9], [1, 1], [0]])
    asked = prepared(Choices(), batch(*rows))
    assert asked.inputs["ids"].tolist() == [[1, 5, 2, 0], [1, 6, 7, 2], [8, 0, 0, 0], [1, 0, 0, 0], [9, 0, 0, 0]]
    assert asked.count == 2
    said = torch.tensor([0.0, math.log(3), 0.0, math.log(4), 0.0])
    loss = Choices().loss(said, asked)
    assert float(loss.total) == pytest.approx(-math.log(3 / 5) - math.log(4 / 5))
    assert float(loss.parts["accuracy"]) == 2
