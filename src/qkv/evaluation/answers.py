"""Answers that are no classes: numbers by their correlation, phrases by conlleval's F1, parts of a text by SQuAD's."""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from qkv.errors import InputError
from qkv.evaluation.scores import check_paired

MARKED = re.compile(r"[BIESLU]-.+")
ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def pearson(found: Sequence[float], gold: Sequence[float]) -> float:
    """Pearson 1895: the covariance of two rows of numbers over both their deviations; 0 where one is constant."""
    check_paired(found, gold, "found numbers", "gold ones", "one of each")
    x, y = ([value - math.fsum(row) / len(row) for value in row] for row in (found, gold))
    spread = math.sqrt(math.fsum(a * a for a in x)) * math.sqrt(math.fsum(b * b for b in y))
    return math.fsum(a * b for a, b in zip(x, y, strict=True)) / spread if spread else 0.0


def spearman(found: Sequence[float], gold: Sequence[float]) -> float:
    """Spearman 1904: Pearson's correlation of the ranks."""
    return pearson(ranks(found), ranks(gold))


def ranks(row: Sequence[float]) -> list[float]:
    """The place of each number in their order, from 1; equal ones share the mean of their places."""
    place, found = 1.0, [0.0] * len(row)
    for _, equal in groupby(sorted(range(len(row)), key=row.__getitem__), key=row.__getitem__):
        several = [*equal]
        for i in several:
            found[i] = place + (len(several) - 1) / 2
        place += len(several)
    return found


# -- tags --------------------------------------------------------------------------------------------------------------


class Phrase(NamedTuple):
    """Words from `first` to before `end`, and what they are."""

    first: int
    end: int
    kind: str


class PhraseScores(NamedTuple):
    """From 0 to 1, over all phrases of all sentences."""

    precision: float
    recall: float
    f1: float


def marks_phrases(tags: Iterable[str]) -> bool:
    """Whether tags say where phrases begin: IOB2 (B-, I-, O), or IOBES (E- ends one, S- is a single word; in BILOU they
    are L- and U-). Tags without such marks speak of single words."""
    names = set(tags) - {"O"}
    others = sorted(name for name in names if not MARKED.fullmatch(name))
    if others and len(others) < len(names):
        marked = min(names - set(others))
        raise InputError(
            f"the tags {marked!r} and {others[0]!r} are of no one scheme; write B-type, I-type and O, or B-, I-, E-, "
            "S- and O, or tags without such marks"
        )
    return bool(names) and not others


def phrases(tags: Sequence[str], is_marked: bool = True) -> list[Phrase]:
    """The phrases of a sentence as conlleval reads them (Tjong Kim Sang & De Meulder 2003): an I- or E- that goes on
    with no phrase of its type begins one. Where tags mark none, each word is a phrase."""
    if not is_marked:
        return [Phrase(i, i + 1, tag) for i, tag in enumerate(tags)]
    found, begun, is_over = list[Phrase](), None, False
    for i, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        if begun is not None and (is_over or mark in {"O", "B", "S", "U"} or kind != begun[1]):
            found.append(Phrase(begun[0], i, begun[1]))
            begun = None
        if mark != "O" and begun is None:
            begun = i, kind
        is_over = mark in {"E", "S", "L", "U"}
    return found


def phrase_scores(
    found: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], is_marked: bool = True
) -> PhraseScores:
    """The tags of each sentence against those that are right: a phrase counts if its borders and its type are.

    Where tags mark no phrases, all three are the share of words whose tag is right.
    """
    check_paired(found, gold, "tagged sentences", "gold ones", "one of each")
    hits = said = right = 0
    for ours, theirs in zip(found, gold, strict=True):
        if len(ours) != len(theirs):
            raise InputError(f"a sentence has {len(ours)} tags and {len(theirs)} gold ones; give one for each word")
        a, b = (set(phrases(tags, is_marked)) for tags in (ours, theirs))
        hits, said, right = hits + len(a & b), said + len(a), right + len(b)
    f1 = 2 * hits / (said + right) if said + right else 0.0
    return PhraseScores(hits / said if said else 0.0, hits / right if right else 0.0, f1)


# -- parts of a text ---------------------------------------------------------------------------------------------------


def bare_words(answer: str) -> list[str]:
    """Rajpurkar et al. 2016, their evaluation: lower-cased words without punctuation and articles."""
    return ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split()


def exact_match(found: str, gold: Sequence[str]) -> float:
    """1 if the answer is one of those that are right, in bare words; "" is right where there is none."""
    return float(any(bare_words(found) == words for words in _accepted(gold)))


def overlap_f1(found: str, gold: Sequence[str]) -> float:
    """Rajpurkar et al. 2016, section 6.1: F1 of the words of an answer, as bags, against the nearest right one."""
    return max(_f1(bare_words(found), words) for words in _accepted(gold))


def _accepted(gold: Sequence[str]) -> list[list[str]]:
    return [words for answer in gold if (words := bare_words(answer))] or [[]]


def _f1(found: list[str], gold: list[str]) -> float:
    if not found or not gold:  # no answer, which is right or not
        return float(found == gold)
    return 2 * (Counter(found) & Counter(gold)).total() / (len(found) + len(gold))
