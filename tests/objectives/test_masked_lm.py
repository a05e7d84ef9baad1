"""Masked words: shares over many texts, whole units, budgets, and single rows against plain loops."""

import math
import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kit import batch, refused
from qkv.data import Batch, Place, RowsInMemory, Windows, generator
from qkv.objectives import Asked, MaskedLM, hiding, objective
from qkv.objectives.passages import IN_ENTITY, IN_PHRASE
from qkv.text.tokenizer import BOS, EOS, PAD, SPECIALS, Tokenizer

TEXTS = ["the unbelievable dogs were running", "unforgettable cats and dogs", "a dog runs believably to the forest"]
WORDS = Tokenizer.train(TEXTS, kind="wordpiece", vocab_size=60, specials=("<mask>",))
MASK = WORDS.special("<mask>")
ORDINARY = [n for n in range(len(WORDS)) if n not in WORDS.specials.values()]
BEGINS = [not token.startswith("##") for token in WORDS.vocabulary()]
ROWS, LENGTH = 10_000, 60  # of which 9 are 15 %


def windows(rows: int = ROWS, length: int = LENGTH, seed: int = 1) -> Batch:
    """Texts of random tokens, each of them once the beginning of a window."""
    rng = torch.Generator().manual_seed(seed)
    ids = torch.tensor(ORDINARY)[torch.randint(len(ORDINARY), (rows, length), generator=rng)]
    numbers = np.stack([np.zeros(rows, np.int64), np.arange(rows) * length], axis=1)
    return Batch((ids,), torch.full((rows, 1), length), numbers)


def ask(batch: Batch, epoch: int = 0, **options: Any) -> tuple[Tensor, Asked]:
    """What was there, and the question."""
    asked = MaskedLM(**options).knowing(WORDS).prepare(batch, generator(1, Place(epoch, 0)))
    before = batch.columns[0].clone()
    before[:, 0] = BOS
    return before, asked


MANY = windows()


@pytest.mark.parametrize("unit", ["piece", "word", "span", "ngram"])
def test_the_shares_over_ten_thousand_texts(unit: str) -> None:
    """15 +- 0.5 % of the tokens are asked for, and of these 80/10/10 +- 1 %; one of V drawn at random is itself."""
    before, asked = ask(MANY, unit=unit)
    hidden = asked.labels != PAD
    assert hidden.float().mean().item() == pytest.approx(0.15, abs=0.005)
    assert asked.count == hidden.sum()
    assert torch.equal(asked.labels[hidden], before[hidden])
    ids = asked.inputs["ids"]
    assert torch.equal(ids[~hidden], before[~hidden])
    masked, kept = (ids[hidden] == MASK), (ids[hidden] == before[hidden])
    by_chance = 1 / len(WORDS)
    assert masked.float().mean().item() == pytest.approx(0.8 + 0.1 * by_chance, abs=0.01)
    assert kept.float().mean().item() == pytest.approx(0.1 + 0.1 * by_chance, abs=0.01)
    drawn = ids[hidden][~masked & ~kept]
    assert set(drawn.tolist()) >= set(ORDINARY)


def test_whole_units_count_where_each_of_their_tokens_is_the_best() -> None:
    """Hidden runs of 2, 1, 3 and 2 tokens; those of several are right in the first, and in the last, of another row."""
    labels = torch.tensor([[0, 5, 6, 0, 7, 0, 8, 9, 10], [0, 0, 0, 0, 0, 0, 0, 11, 12]])
    named = torch.tensor([5, 6, 4, 8, 4, 10, 11, 12])
    hidden = torch.zeros(2, 9, 13)
    hidden[labels != PAD] = torch.nn.functional.one_hot(named, 13).float()
    projection = SimpleNamespace(ready=lambda x: x, weight=torch.eye(13), bias=None)
    asked = Asked({}, labels, 8)
    with torch.no_grad():
        found = MaskedLM(unit="span").loss(SimpleNamespace(hidden=hidden, projection=projection), asked)
        pieces = MaskedLM().loss(SimpleNamespace(hidden=hidden, projection=projection), asked)
    assert (found.parts["accuracy"], found.parts["exact_match"], found.counts) == (6, 2, {"exact_match": 3})
    assert pieces.parts.keys() == {"likelihood", "accuracy"}


@pytest.mark.parametrize("unit", ["piece", "word", "span", "ngram"])
def test_rates_of_0_and_1_have_one_answer(unit: str) -> None:
    few = windows(50)
    before, asked = ask(few, unit=unit, rate=1.0, mask=1.0, keep=0.0)
    assert (asked.inputs["ids"][:, 1:] == MASK).all()
    assert (asked.inputs["ids"][:, 0] == BOS).all()
    assert torch.equal(asked.labels[:, 1:], before[:, 1:])
    before, asked = ask(few, unit=unit, rate=1.0, mask=0.0, keep=1.0)
    assert torch.equal(asked.inputs["ids"], before)
    _, asked = ask(few, unit=unit, rate=1e-9)
    assert asked.count == (len(few) if unit != "word" else sum(any(lone_words(row)) for row in few.columns[0]))


def lone_words(row: Tensor) -> list[bool]:
    """For each token after the first of a window, whether it is a word by itself."""
    begins = [True, *(BEGINS[n] for n in row[2:].tolist()), True]
    return [a and b for a, b in pairwise(begins)]


def test_the_number_of_pieces_is_that_of_berts_code() -> None:
    """max(1, round(0.15 n)) of n tokens, special ones counted; none of these is taken."""
    rows = [[EOS, *ORDINARY[:n], EOS] for n in range(1, 40)]
    padded = batch(*([row] for row in rows))
    _, asked = ask(padded)
    for row, labels in zip(rows, asked.labels, strict=True):
        assert (labels != PAD).sum() == min(max(1, round(0.15 * len(row))), len(row) - 2)
        assert (labels[len(row) - 1 :] == PAD).all()


def test_whole_words_are_hidden_and_the_budget_is_kept() -> None:
    before, asked = ask(MANY, unit="word")
    hidden = (asked.labels != PAD).numpy()
    starts = np.array(BEGINS)[before.numpy()]
    starts[:, :2] = True
    assert (hidden[:, 1:][~starts[:, 1:]] == hidden[:, :-1][~starts[:, 1:]]).all()
    assert (hidden.sum(axis=1) <= round(0.15 * LENGTH)).all()
    assert hidden.sum(axis=1).mean() > 0.97 * round(0.15 * LENGTH)


def test_words_are_taken_as_by_the_authors_loop() -> None:
    """In the same order of words: each is hidden unless it would pass the budget."""
    rng = random.Random(1)
    for _ in range(200):
        n = rng.randint(3, 30)
        free = np.array([[rng.random() < 0.9 for _ in range(n)]])
        starts = np.array([[rng.random() < 0.5 for _ in range(n)]]) | ~free
        starts[:, 0] = True
        starts[:, 1:] |= ~free[:, :-1]
        keys, budget = np.array([[rng.random() for _ in range(n)]]), rng.randint(1, 6)
        found = hiding.words(free, starts, np.array([budget]), lambda keys=keys: keys)  # type: ignore[misc]
        words, taken = list[list[int]](), list[int]()
        for place in range(n):
            if starts[0, place] or not words:
                words.append([])
            words[-1].append(place)
        for word in sorted((w for w in words if free[0, w[0]]), key=lambda w: keys[0, w[0]]):
            if len(taken) + len(word) <= budget:
                taken += word
        assert np.flatnonzero(found[0]).tolist() == sorted(taken)


# -- spans -------------------------------------------------------------------------------------------------------------

PUBLISHED = [0.224, 0.179, 0.143, 0.115, 0.092, 0.073, 0.059, 0.047, 0.038, 0.030]  # Geometric(0.2) up to 10, by hand


def test_the_lengths_of_spans_are_geometric() -> None:
    found = hiding.lengths(np.random.default_rng(1).random(100_000))
    shares = np.bincount(found, minlength=11)[1:] / len(found)
    assert shares == pytest.approx(PUBLISHED, abs=0.01)
    assert found.mean() == pytest.approx(3.797, abs=0.03)
    assert [int(hiding.lengths(np.array([x]))[0]) for x in (0.0, 0.223, 0.225, 0.9999999)] == [1, 1, 2, 10]


def test_spans_of_long_texts_have_these_lengths_in_words() -> None:
    """So few tokens of long texts are hidden that spans seldom meet, and the budget cuts one in a hundred. Each word is
    one piece."""
    free = np.ones((20, 20_000), bool)
    draw = hiding.at_random(torch.Size(free.shape), torch.Generator().manual_seed(1))
    hidden = hiding.spans(free, free, np.full(20, 400), draw)
    assert (hidden.sum(axis=1) == 400).all()
    first = hiding.runs(hidden)
    lengths = np.concatenate(
        [np.unique(row[kept], return_counts=True)[1] for row, kept in zip(first, hidden, strict=True)]
    )
    shares = np.bincount(lengths, minlength=11)[1:11] / len(lengths)
    assert shares == pytest.approx(PUBLISHED, abs=0.02)
    assert (lengths > 10).mean() < 0.02


def test_exactly_the_budget_of_spans_is_hidden() -> None:
    rows = [[EOS, *(ORDINARY * 3)[:n], EOS] for n in range(1, 90)]
    padded = batch(*([row] for row in rows))
    _, asked = ask(padded, unit="span")
    for row, labels in zip(rows, asked.labels, strict=True):
        assert (labels != PAD).sum() == math.ceil(round(0.15 * (len(row) - 2), 9))


def test_a_span_begins_with_a_word_and_shares_one_fate() -> None:
    before, asked = ask(MANY, unit="span", mask=0.5, keep=0.5)
    hidden, ids = (asked.labels != PAD).numpy(), asked.inputs["ids"].numpy()
    first = hiding.runs(hidden)
    starts = np.array(BEGINS)[before.numpy()]
    starts[:, :2] = True
    rows, places = np.nonzero(hidden)
    assert starts[rows, first[rows, places]].all()
    of_span: dict[tuple[int, int], set[bool]] = {}
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        of_span.setdefault((row, int(first[row, place])), set()).add(bool(ids[row, place] == MASK))
    assert all(len(kinds) == 1 for kinds in of_span.values())
    assert sum(True in kinds for kinds in of_span.values()) / len(of_span) == pytest.approx(0.5, abs=0.02)


def test_no_span_crosses_a_special_token() -> None:
    row = [EOS, *ORDINARY[:9], EOS, *ORDINARY[:9], EOS]
    _, asked = ask(batch(*([row] for _ in range(500))), unit="span", rate=0.5)
    assert not (asked.labels == EOS).any()


# -- phrases and names: units come with the rows -----------------------------------------------------------------------


def marked(rows: int, seed: int = 1) -> tuple[Batch, np.ndarray]:
    """Passages of words of one token, and the unit of each token: phrases of 1 to 4 words."""
    rng, made, units = random.Random(seed), [], []
    whole = [n for n in ORDINARY if BEGINS[n]]
    for _ in range(rows):
        marks, numbers = list[int](), list[int]()
        while len(marks) < 100:
            size = rng.randint(1, 4)
            marks += [0, *[IN_PHRASE | IN_ENTITY] * (size - 1)]
            numbers += [len(set(numbers))] * size
        made.append([rng.choices(whole, k=len(marks)), [len(marks)], marks, [0, 1, 200]])
        units.append(numbers)
    return batch(*made), units


@pytest.mark.parametrize("unit", ["phrase", "entity"])
def test_units_are_never_hidden_in_part(unit: str) -> None:
    some, units = marked(2000)
    _, asked = ask_passages(some, unit=unit)
    chosen = total = 0
    for numbers, labels in zip(units, asked.labels, strict=True):
        hidden = (labels[1 : len(numbers) + 1] != PAD).tolist()
        fates: dict[int, set[bool]] = {}
        for number, is_hidden in zip(numbers, hidden, strict=True):
            fates.setdefault(number, set()).add(is_hidden)
        assert all(len(fate) == 1 for fate in fates.values())
        chosen += sum(True in fate for fate in fates.values())
        total += len(fates)
    assert chosen / total == pytest.approx(0.15, abs=0.01)


def ask_passages(some: Batch, **options: Any) -> tuple[Tensor, Asked]:
    return some.columns[0], MaskedLM(**options).knowing(WORDS).prepare(some, generator(1, Place()))


def test_pieces_of_a_word_go_with_its_unit() -> None:
    """ "un ##be" is one word: where a phrase is hidden, so are all the pieces of its words."""
    inner = next(n for n in ORDINARY if not BEGINS[n])
    head = next(n for n in ORDINARY if BEGINS[n])
    some = batch([[head, inner, head, inner, head], [5], [0, 0, IN_PHRASE, IN_PHRASE, 0], [0, 1, 9]])
    seen = set()
    for n in range(40):
        asked = MaskedLM(unit="phrase").knowing(WORDS).prepare(some, generator(1, Place(0, n)))
        seen.add(tuple((asked.labels[0, 1:6] != PAD).tolist()))
    assert seen == {(True, True, True, True, False), (False, False, False, False, True)}
    some = batch([[head, inner, head, inner, head], [5], [0, IN_PHRASE, IN_PHRASE, IN_PHRASE, 0], [0, 1, 9]])
    only = MaskedLM(unit="phrase", only=True, rate=1.0).knowing(WORDS).prepare(some, generator(1, Place()))
    assert (only.labels[0, 1:6] != PAD).tolist() == [True, True, True, True, False]


# -- from epoch to epoch -----------------------------------------------------------------------------------------------


def test_masks_differ_between_epochs_and_come_again_with_the_seed() -> None:
    few = windows(100)
    (_, first), (_, again), (_, other) = ask(few, 0), ask(few, 0), ask(few, 1)
    assert torch.equal(first.inputs["ids"], again.inputs["ids"])
    assert not torch.equal(first.labels, other.labels)


@pytest.mark.parametrize("unit", ["piece", "word", "span", "phrase"])
def test_static_masks_are_those_of_the_place_in_the_corpus(unit: str) -> None:
    """Whatever the epoch, and whatever other rows are in the batch."""
    some, _ = marked(40)
    asked = [
        MaskedLM(unit=unit, static=True).knowing(WORDS).prepare(one, generator(seed, Place(seed, 0)))  # type: ignore[arg-type]
        for seed, one in enumerate((some, some))
    ]
    assert torch.equal(asked[0].inputs["ids"], asked[1].inputs["ids"])
    order = torch.arange(len(some)).flip(0)
    turned = Batch(tuple(c[order] for c in some.columns), some.lengths[order], some.rows[order.numpy()])
    found = MaskedLM(unit=unit, static=True).knowing(WORDS).prepare(turned, generator(9, Place()))  # type: ignore[arg-type]
    assert torch.equal(found.inputs["ids"][order], asked[0].inputs["ids"])
    assert len({tuple(row.nonzero().flatten().tolist()) for row in found.labels}) > 30, "rows have masks of their own"


def test_static_masks_of_windows_are_of_tokens_wherever_a_window_begins() -> None:
    rows = RowsInMemory([[(ORDINARY * 60)[:2000]]])
    stream = Windows(rows, length=50, batch=4, seed=1)
    hidden: list[dict[int, bool]] = []
    for epoch in (0, 1):
        places: dict[int, bool] = {}
        for make in stream.epoch(epoch, 0):
            one = make()
            asked = MaskedLM(static=True).knowing(WORDS).prepare(one, generator(1, Place(epoch, 0)))
            for start, labels in zip(one.rows[:, 1].tolist(), asked.labels[:, 1:], strict=True):
                places |= {start + 1 + i: label != PAD for i, label in enumerate(labels.tolist())}
        hidden.append(places)
    both = hidden[0].keys() & hidden[1].keys()
    assert len(both) > 1800
    assert sum(hidden[0][at] == hidden[1][at] for at in both) / len(both) > 0.95  # a budget cuts elsewhere


def test_numbers_by_place_are_spread_evenly() -> None:
    draw = hiding.by_place(torch.arange(50_000)[None])
    first, second = draw()[0], draw()[0]
    for numbers in (first, second):
        assert np.histogram(numbers, 10, (0, 1))[0] / 50_000 == pytest.approx([0.1] * 10, abs=0.01)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.02


# -- words of each kind of vocabulary ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "byte_bpe", "unigram", "wordpiece", "characters"])
def test_words_are_those_of_the_text(kind: str) -> None:
    """Hidden whole: what is left, decoded, has no part of a word that is gone."""
    words = Tokenizer.train(TEXTS * 3, kind=kind, vocab_size=330, specials=("<mask>",))
    ids = [EOS, *words.encode(TEXTS[0] if kind != "byte_bpe" else " " + TEXTS[0]), EOS]
    own = MaskedLM(unit="word", rate=0.4, mask=1.0, keep=0.0).knowing(words)
    for n in range(20):
        labels = own.prepare(batch([ids]), generator(1, Place(0, n))).labels[0]
        left = [number for number, label in zip(ids, labels.tolist(), strict=True) if label == PAD]
        if kind != "characters":
            assert set(words.decode(left).split()) <= set(TEXTS[0].split())


@refused(
    {
        "masked_lm(rate=0.0)": "rate=0.0, mask=0.8 and keep=0.1 are no shares",
        "masked_lm(mask=0.9, keep=0.2)": "at most 1 together",
        "masked_lm(only=True)": "only=True is for the units phrase and entity, and unit is piece",
        "masked_lm(unit='letter')": "Input should be 'piece', 'word', 'span', 'phrase', 'entity' or 'ngram'",
    },
    "spec",
    plain=True,
)
def test_what_cannot_be_hidden_is_refused(spec: str) -> None:
    objective(spec)


def test_special_tokens_are_never_hidden() -> None:
    ids = torch.arange(len(WORDS)).repeat(200, 1)
    some = Batch((ids,), torch.full((200, 1), ids.size(1)), np.zeros((200, 2), np.int64))
    for unit in ("piece", "word", "span"):
        _, asked = ask(some, unit=unit, rate=0.9)
        assert not torch.isin(asked.labels, torch.tensor([*range(1, len(SPECIALS)), MASK])).any()
