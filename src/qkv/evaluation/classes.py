"""Accuracy, macro-F1 and the Matthews correlation: how good a classifier is, rare classes counted too."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from qkv.evaluation.scores import check_paired


@dataclass(frozen=True)
class ClassScores:
    """Accuracy and macro-F1 from 0 to 1; the correlation from -1 to 1, where 0 is no better than chance."""

    accuracy: float
    macro_f1: float
    mcc: float


def class_scores(found: Sequence[Hashable], gold: Sequence[Hashable]) -> ClassScores:
    """The classes that were found against those that are right, one of each for every example.

    F1 of a class = 2 hits / (found + gold), van Rijsbergen 1979; macro-F1 is its mean over the classes that occur on
    either side. Matthews 1975, for any number of classes by Gorodkin 2004: mcc = (c s - sum of p t) /
    sqrt((s^2 - sum of p^2) (s^2 - sum of t^2)), with c right answers of s, p of a class found and t of it gold. It is 0
    where that is 0 / 0, which is where one class alone is found or is right.
    """
    check_paired(found, gold, "found classes", "gold ones", "one of each")
    p, t = Counter(found), Counter(gold)
    hits = Counter(one for one, right in zip(found, gold, strict=True) if one == right)
    c, s = hits.total(), len(gold)
    f1 = [2 * hits[one] / (p[one] + t[one]) for one in p | t]
    chance = sum(p[one] * t[one] for one in p)
    spread = math.prod(s * s - sum(count * count for count in side.values()) for side in (p, t))
    return ClassScores(c / s, sum(f1) / len(f1), (c * s - chance) / math.sqrt(spread) if spread else 0.0)
