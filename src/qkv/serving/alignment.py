"""Words put in the place of those that translate a part of the source, as the decoder's attention shows it."""

import re
from collections.abc import Sequence

from torch import Tensor

from qkv.decoding import Translator
from qkv.decoding.alignment import readout_of, word_attention, words_of
from qkv.errors import InputError

Span = tuple[int, int]  # characters, from and up to
CORE = re.compile(r"\w(?:.*\w)?")  # a word without the punctuation around it


def replace_aligned(translator: Translator, source: str, translation: str, parts: Sequence[tuple[Span, str]]) -> str:
    """The translation with new words for some parts of the source; as it was, where attention cannot be read."""
    sources, targets = words_of(translator, [source]), words_of(translator, [translation])
    try:
        weights = next(
            iter(word_attention(translator, sources, targets, readout_of(translator)))
        )  # (T, S) between words
    except InputError:  # too long for the model, or a model without attention
        return translation
    columns, rows = ([match.span() for match in re.finditer(r"\S+", text)] for text in (source, translation))
    free = [re.search(r"\w", translation[start:end]) is not None for start, end in rows]
    changes: dict[Span, str] = {}
    for (start, end), new in parts:
        inside = [i for i, column in enumerate(columns) if column[0] < end and start < column[1]]
        if inside and any(free):
            first, last = run(weights, inside, free, [end - start for start, end in rows])
            free[first : last + 1] = [False] * (last + 1 - first)
            changes[rows[first][0], rows[last][1]] = new
    return rewritten(translation, changes)


def run(weights: Tensor, inside: list[int], free: list[bool], lengths: list[int]) -> tuple[int, int]:
    """The free word that looked most at the part, with the neighbours that looked nowhere more than there.

    Of more words than the part has, the longest: an article often looks at its noun, and stays.
    """
    looks = weights[:, inside].sum(dim=1).tolist()
    mostly = [ok and where in inside for ok, where in zip(free, weights.argmax(dim=1).tolist(), strict=True)]
    first = last = max(range(len(looks)), key=lambda i: looks[i] if free[i] else -1)
    while first > 0 and mostly[first - 1]:
        first -= 1
    while last + 1 < len(looks) and mostly[last + 1]:
        last += 1
    size = min(len(inside), last - first + 1)
    start = max(range(first, last - size + 2), key=lambda i: sum(lengths[i : i + size]))
    return start, start + size - 1


def rewritten(text: str, changes: dict[Span, str]) -> str:
    for (start, end), new in sorted(changes.items(), reverse=True):
        core = CORE.search(text, start, end)
        if core is None:
            continue
        if not start and core[0][0].isupper():  # it begins the sentence
            new = new[0].upper() + new[1:]
        text = text[: core.start()] + new + text[core.end() :]
    return text
