"""What is asked about the sentences of passages: which come next, how far apart they are, and in what order."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, permutations
from math import factorial
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from qkv.config import setting
from qkv.data import Batch
from qkv.data.rows import Ints
from qkv.errors import InputError
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.passages import Passages

UNASKED = -1  # the label of a row about which there is nothing to ask
Arranged = tuple[list[Ints], int]  # the texts of a row, and its label


@dataclass(frozen=True, kw_only=True)
class OfSentences(Usual):
    """One class for each text, told from the state of its first token; by itself nothing."""

    name: ClassVar[str]
    passages = True
    strangers: ClassVar[bool] = False  # whether it asks for sentences of other documents
    classes: ClassVar[int]

    @property
    def heads(self) -> Mapping[str, str]:  # type: ignore[override]
        return {self.name: f"classes(n={self.classes}, pool='first', dense=True, dropout=0.0)"}

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        rows = Passages(batch, self.name)
        draws = torch.rand(len(rows), 6, generator=rng, dtype=torch.float64).numpy()
        found = [self.arrange(rows, row, *draw) for row, draw in enumerate(draws.tolist())]
        given, text = rows.arranged([texts for texts, _ in found])
        labels = torch.tensor([label for _, label in found])
        return Asked(given, labels, int((labels != UNASKED).sum()), beside=text.beside)

    def arrange(self, rows: Passages, row: int, *draw: float) -> Arranged:
        """The texts of a row by numbers from 0 to 1."""
        raise NotImplementedError

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        logits, labels = outputs.answer(self.name), asked.labels
        total = F.cross_entropy(logits, labels, ignore_index=UNASKED, reduction="sum")
        return Loss(total, {"accuracy": (logits.argmax(dim=1) == labels).sum()})

    def check(self, documents: int, marks: int) -> None:
        if self.strangers and documents < 2:
            raise InputError(
                f"{self.name} needs sentences of other documents, and all the text is one document; "
                "say what parts them: --data.documents blank_lines, or lines"
            )


@dataclass(frozen=True, kw_only=True)
class NextSentence(OfSentences):
    """Devlin et al. 2019, section 3.1, task 2: does B follow A (0), or is it of another document (1)?

    A passage is cut in two between sentences. With the chance `random`, and always if it has one sentence alone, its
    second part gives way to sentences of another document, about as long; with the chance `short` some of its sentences
    are left out first. Where windows are so short that many passages are one sentence, most pairs are false ones.

    Differs: BERT's authors wrote the pairs to a file, ten times with other masks. Here they are drawn anew in each
    epoch, B from the other passages of the batch; what a B takes the place of is not lost, its turn comes in another
    epoch. Where all of a batch is of one document, every B follows its A.
    """

    random: float = setting(0.5, "the share of pairs whose second text is of another document")
    short: float = setting(0.1, "the share of passages that are made shorter, to a length drawn at random")

    name = "next_sentence"
    classes = 2
    strangers = True

    def __post_init__(self) -> None:
        if not (0 <= self.random <= 1 and 0 <= self.short <= 1):
            raise ValueError(f"random={self.random} and short={self.short} are no shares; give 0 to 1")

    def arrange(self, rows: Passages, row: int, *draw: float) -> Arranged:
        sizes = rows.sizes[row]
        n = len(sizes)
        if draw[0] < self.short:
            target = 2 + draw[1] * (rows.room - 2)
            n = max(1, int(np.searchsorted(np.cumsum(sizes), target, side="right")))
        cut = 1 + int(draw[2] * max(1, n - 1)) if n > 1 else 1
        first, second = rows.span(row, 0, cut), rows.span(row, cut, n)
        other = rows.stranger(row, draw[3]) if draw[4] < self.random or n == 1 else None
        if other is not None and (room := len(second) or rows.room - len(first)) > 0:
            return [first, rows.like(other, room, draw[5])], 1
        return ([first, second], 0) if n > 1 else ([first], UNASKED)


@dataclass(frozen=True, kw_only=True)
class SentenceDistance(OfSentences):
    """Sun et al. 2020 (ERNIE 2.0), section 4.2.2: do two texts stand side by side (0), apart in one document (1), or in
    two documents (2)?

    Each third of the passages is asked for one of the three; those of two sentences cannot be asked for 1. In all three
    the second text has as many sentences, so that its length tells nothing.
    """

    name = "sentence_distance"
    classes = 3
    strangers = True

    def arrange(self, rows: Passages, row: int, *draw: float) -> Arranged:
        n = len(rows.sizes[row])
        if n == 1:
            return [rows.span(row, 0, 1)], UNASKED
        cut = 1 + int(draw[0] * max(1, n - 2))
        gap = 1 + int(draw[1] * (n - cut - 1)) if n > 2 else 0
        left = n - cut - gap
        first, other = rows.span(row, 0, cut), rows.stranger(row, draw[2])
        kinds = [0, *([1] if gap else []), *([2] if other is not None else [])]
        label = kinds[int(draw[3] * len(kinds))]
        if label == 2 and other is not None:
            return [first, rows.like(other, len(rows.span(row, cut, cut + left)), draw[4])], 2
        start = cut + label * gap
        return [first, rows.span(row, start, start + left)], label


@dataclass(frozen=True, kw_only=True)
class SentenceOrder(OfSentences):
    """Sun et al. 2020 (ERNIE 2.0), section 4.2.2: a passage is cut into 1 to m parts, then shuffled: in what order?

    One class for each order of each number of parts: sum over n of n!, 9 for m = 3. A passage of one sentence, which
    has one order alone, is not asked for.
    """

    m: int = setting(3, "the most parts that a passage is cut into, 1 to 6")

    name = "sentence_order"

    def __post_init__(self) -> None:
        if not 1 <= self.m <= 6:
            raise ValueError(f"m must be 1 to 6 parts, not {self.m}: there are m! orders of them")

    @property
    def classes(self) -> int:  # type: ignore[override]
        return sum(factorial(n) for n in range(1, self.m + 1))

    def arrange(self, rows: Passages, row: int, *draw: float) -> Arranged:
        n = len(rows.sizes[row])
        if n == 1:
            return [rows.span(row, 0, 1)], UNASKED
        parts = 1 + int(draw[0] * min(self.m, n))
        rng = np.random.default_rng(int(draw[1] * 2**53))
        cuts = [0, *sorted(1 + rng.choice(n - 1, parts - 1, replace=False)), n]
        order = tuple(rng.permutation(parts).tolist())
        pieces = [rows.span(row, cuts[part], cuts[part + 1]) for part in order]
        return [np.concatenate(pieces)], number_of(order)


@cache
def orders(parts: int) -> list[tuple[int, ...]]:
    return list(permutations(range(parts)))


def number_of(order: tuple[int, ...]) -> int:
    """The class of an order: those of fewer parts come first. order[i] is the part that stands at place i."""
    return sum(factorial(n) for n in range(1, len(order))) + orders(len(order)).index(order)


def order_of(number: int) -> tuple[int, ...]:
    """The order of a class."""
    ends = accumulate(factorial(n) for n in range(1, 7))
    parts, end = next((parts, end) for parts, end in enumerate(ends, start=1) if number < end)
    return orders(parts)[number - end + factorial(parts)]
