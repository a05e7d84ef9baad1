"""ROUGE: how much of a reference a summary says in the same words."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from qkv.errors import InputError
from qkv.evaluation.scores import check_paired


class Rouge(NamedTuple):
    """F1 from 0 to 100 of words, of pairs of words, and of the longest sequence of words that both have."""

    rouge_1: float
    rouge_2: float
    rouge_l: float


def rouge(texts: Sequence[str], references: Sequence[Sequence[str]]) -> Rouge:
    """Lin 2004: means over all texts, each against the best of its references.

    Differs: words are letters and digits of any script, lower-cased and not stemmed.
    """
    check_paired(texts, references, "texts", "references", "one or more references for each", "one text")
    if not all(references):
        number = [*map(bool, references)].index(False) + 1
        raise InputError(f"text {number} has no reference; give one or more for each")
    return mean_of_best([[(text, one) for one in several] for text, several in zip(texts, references, strict=True)])


def mean_of_best(pairs: Sequence[Sequence[tuple[str, str]]]) -> Rouge:
    """The same of (text, reference), where a text may have another form for each of its references."""
    found = [[max(figures) for figures in zip(*(compared(*one) for one in several), strict=True)] for several in pairs]
    return Rouge(*(100 * sum(figures) / len(found) for figures in zip(*found, strict=True)))


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def cut(text: str, reference: str) -> str:
    """The first words of a text, as many as the reference has."""
    return " ".join(words_of(text)[: len(words_of(reference))])


def compared(text: str, reference: str) -> Rouge:
    a, b = words_of(text), words_of(reference)
    alone, pairs = ([Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (a, b)] for n in (1, 2))
    return Rouge(in_common(*alone), in_common(*pairs), f1(longest_common(a, b), len(a), len(b)))


def in_common(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> float:
    return f1((one & other).total(), one.total(), other.total())


def f1(common: int, text: int, reference: int) -> float:
    """Of the precision common / text and the recall common / reference."""
    return 2 * common / (text + reference) if common else 0.0


def longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """The length of the longest sequence that both have in the same order, with gaps."""
    row = [0] * (len(b) + 1)  # of the words of a so far, and of the first j of b
    for word in a:
        before = row
        row = [0]
        for j, other in enumerate(b):
            row.append(before[j] + 1 if word == other else max(row[j], before[j + 1]))
    return row[-1]
