"""Text cut into sentences, and into pieces that fit a model; joined again, the pieces are the text to the letter.

A border that is missed costs little: two sentences are translated as one. A false border costs a translation its
context. Where a full stop can be read both ways ("J. Smith", "3. Oktober"), there is none.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

from qkv.errors import InputError

# Each pattern is a row of classes that share no character, so it matches in one go and never tries again.
CLOSERS = r"""["'”’“‘»›«‹)\]}」』）】》〉]*"""
SENTENCE_ENDS = re.compile(rf"[.!?…؟۔।॥։።។။。！？｡]+{CLOSERS}\s*|\n[^\S\n]*\n\s*")  # or an empty line
CLAUSE_ENDS = re.compile(rf"[,;:–—،؛、，；：]+{CLOSERS}\s*")
WORDS = re.compile(r"\S+\s*|\s+")  # each with the white space that follows it
NO_SPACE_NEEDED = frozenset("。！？｡、，；：")  # East Asian punctuation; all other needs a space after it
OPENERS = "\"'“‘„‚«‹»›([{¿¡「『（【《〈"

# Words with a full stop that seldom end a sentence, and have no other meaning: "no." and "etc." end many.
ENGLISH = "adm approx capt cf col cpl dr esp gen gov hon lt maj messrs mr mrs ms mt prof pres rep rev sen sgt st viz vs"
GERMAN = "bspw bzw ca dipl evtl fr ggf hr hrsg inkl insb ing jh mio mrd o.ä sog str tel u.ä vgl zzgl"
FRENCH_AND_SPANISH = "av dña env mgr mlle mlles mm mme mmes sra srta ud uds"
ABBREVIATIONS = frozenset(f"{ENGLISH} {GERMAN} {FRENCH_AND_SPANISH}".split())
# Words whose full stop is no end before a number: "No. 5", "Fig. 2".
NUMBERED = "abb abs art bd cap ch chap eq fig figs kap no nos nr núm pp sec sect tab vol"
MONTHS = "jan feb mar apr aug sep sept oct okt nov dec dez"
BEFORE_NUMBERS = frozenset(f"{NUMBERED} {MONTHS}".split())
LONGEST_WORD = 24  # characters; longer ones are no abbreviation, and need not be looked at
LONGEST_CLUSTER = 8  # a letter and the accents that are kept with it


def split_sentences(text: str) -> list[str]:
    """The sentences, each with the white space that follows it: "".join(split_sentences(text)) == text."""
    return _cut(text, (match.end() for match in SENTENCE_ENDS.finditer(text) if _ends_sentence(text, match)))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    mark = match[0].rstrip()
    space = match[0][len(mark) :]
    if not mark or space.count("\n") > 1 or not NO_SPACE_NEEDED.isdisjoint(mark):
        return True
    if not space:
        return False
    after = text[match.end() : match.end() + LONGEST_WORD]
    if after.startswith("»") and not after[1:2].isalnum():
        return False  # French « Quoi ? », unlike German »Was?«, has a space before the closing quote
    if not mark.strip("!?"):
        return True
    start = after.lstrip(OPENERS)[:1]
    if start.islower():
        return False
    return mark != "." or not _is_abbreviated(text, match.start(), start)


def _is_abbreviated(text: str, stop: int, start: str) -> bool:
    """Whether the word before the full stop is cut short, so that `start` goes on with the same sentence."""
    words = text[max(0, stop - LONGEST_WORD) : stop].split()
    if not words or text[stop - 1].isspace():
        return False
    word = words[-1].lstrip(OPENERS).lower()
    if len(word) <= 2 and word.isdecimal():
        return True  # "1. Open the file", "am 3. Oktober"
    if all(len(part) == 1 and part.upper() != part.lower() for part in word.split(".")):
        return True  # "J. Smith", "e.g.", "z. B."
    return word in ABBREVIATIONS or (word in BEFORE_NUMBERS and start.isdecimal())


Fits = Callable[[str], bool]
Splitter = Callable[[str], list[str]]


def split_to_fit(text: str, fits: Fits) -> list[str]:
    """Pieces that each fit and that joined are the text: as many sentences as fit together, or else parts of one.

    A sentence that is too long is cut at commas and the like, then at spaces, and at last anywhere.
    """
    return _fit(text, fits, (split_sentences, _split_clauses, WORDS.findall)) if text else []


def _fit(text: str, fits: Fits, splitters: tuple[Splitter, ...]) -> list[str]:
    if fits(text):
        return [text]
    if not splitters:
        middle = _middle(text)
        return _fit(text[:middle], fits, ()) + _fit(text[middle:], fits, ())
    pieces: list[str] = []
    pack = ""
    for part in splitters[0](text):
        if pack and fits(pack + part):
            pack += part
            continue
        if pack:
            pieces.append(pack)
        *done, pack = _fit(part, fits, splitters[1:])
        pieces.extend(done)
    pieces.append(pack)
    return pieces


def _middle(text: str) -> int:
    """About the middle of a text, and not between a letter and its accents."""
    if len(text) == 1:
        raise InputError(f"not even the single character {text!r} fits; allow longer pieces")
    middle = len(text) // 2
    near = range(middle, max(0, middle - LONGEST_CLUSTER), -1)
    return next((at for at in near if not unicodedata.category(text[at]).startswith("M")), middle)


def _split_clauses(text: str) -> list[str]:
    found = CLAUSE_ENDS.finditer(text)
    return _cut(text, (m.end() for m in found if m[0][-1].isspace() or not NO_SPACE_NEEDED.isdisjoint(m[0])))


def _cut(text: str, ends: Iterator[int]) -> list[str]:
    return [text[begin:end] for begin, end in pairwise([0, *ends, len(text)]) if begin < end]
