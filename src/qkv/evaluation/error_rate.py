"""Word and phoneme error rates, where several answers to one question are right."""

from collections.abc import Sequence
from dataclasses import dataclass

from qkv.errors import InputError
from qkv.evaluation.scores import check_paired


@dataclass(frozen=True)
class ErrorRates:
    """Two fractions: 0 is perfect, and the phoneme rate passes 1 where answers are much too long."""

    word: float
    phoneme: float


def edit_distance(a: Sequence[object], b: Sequence[object]) -> int:
    """Levenshtein 1966: the fewest insertions, deletions and substitutions that turn `a` into `b`."""
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        row = [i]
        for j, right in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right)))
        above = row
    return above[-1]


def error_rates(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> ErrorRates:
    """Each hypothesis against all its accepted references.

    A word is right if it equals any of them. Phoneme errors are the edits to the nearest one, over its length, both
    summed over the corpus; of references equally near the shortest counts, so that the rate never flatters.
    """
    check_paired(hypotheses, references, "hypotheses", "lists of references", "one list for each")
    wrong = edits = length = 0
    for number, (hypothesis, accepted) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if not accepted:
            raise InputError(f"item {number} has no reference; give at least one accepted answer for each item")
        for symbols in (hypothesis, *accepted):
            if isinstance(symbols, str):
                raise InputError(
                    f"item {number} has the string {symbols!r} where a list of phonemes was expected; split it first"
                )
        nearest_edits, nearest_length = min((edit_distance(hypothesis, one), len(one)) for one in accepted)
        wrong += nearest_edits > 0
        edits += nearest_edits
        length += nearest_length
    if length == 0:
        raise InputError(
            "the nearest references are all empty, and a rate needs a length; give references with phonemes"
        )
    return ErrorRates(word=wrong / len(hypotheses), phoneme=edits / length)
