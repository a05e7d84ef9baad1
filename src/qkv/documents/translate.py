"""Segments of text and marks, translated: everything that is not language comes back as it was.

A segment is cut at its gaps (line ends, tabs, wide spaces) and into sentences. Each sentence goes to the model with a
number in the place of each placeholder. If the numbers come back, the placeholders take their places again; if not, the
sentence is cut at its placeholders and the pieces between them are translated, so that they stay where they are.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from qkv.decoding import Translator
from qkv.decoding.alignment import align
from qkv.documents.place import Links, Marks, in_proportion, place
from qkv.documents.protect import Patterns, protect, set_aside
from qkv.documents.segment import Mark, Parts, Translates, replaced
from qkv.errors import InputError
from qkv.text.sentences import split_sentences

# Line ends as str.splitlines knows them, tabs, and more than one space.
GAPS = re.compile("([^\\S\\n]*[\\n\\r\\t\\v\\f\\x1c-\\x1f\\x85\u2028\u2029]\\s*|[^\\S\\n\\r]{2,})")
WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)  # from the first letter or digit to the last
SPACE = "\x1f"  # in a text, where a mark of the kind "space" stands; GAPS leave it no other meaning
NUMBERS = re.compile(r"\d+")
ALONE = re.compile(r"(?<![\w.,])\d+(?!\w|[.,]\d)")  # no part of a word or of another number
FIRST = 123  # the first number that takes a placeholder's place; of all words, models copy numbers best


How = dict[str, Any]
Known = dict[str, "Answer"]  # by the text that the model was given
LinksOf = dict[tuple[str, str], Links]  # of a source and its translation
Words = list[tuple[int, str, Mark]]  # each with the offset of its number in the text


@dataclass
class Piece:
    """Text for the model, with white space (or punctuation) around it and marks in it."""

    text: str
    marks: Marks
    before: Parts
    after: Parts
    words: Words = field(default_factory=list)  # placeholders, for each of which a number stands in the text
    cut: list["Piece | str | Mark"] = field(default_factory=list)  # at its placeholders, where a translation lost one


@dataclass(frozen=True)
class Answer:
    """The translations of a text, the best first, and what is to be said about them."""

    texts: list[str]
    remarks: list[str]


@dataclass(frozen=True)
class Done:
    """A segment as it came back: the best translation first, or None where nothing was to be translated."""

    ranked: list[Parts] | None
    remarks: list[str] = field(default_factory=list)


def translate_segments(translator: Translates, segments: list[Parts], also: Patterns = (), **how: Any) -> list[Done]:
    """All sentences of all segments in one batch; a second one for those that lost a placeholder."""
    plans = [list(plan(segment, also)) for segment in segments]
    pieces = [item for items in plans for item in items if isinstance(item, Piece)]
    known: Known = {}
    run(translator, pieces, known, how)
    for piece in pieces:
        if not all(keeps(text, piece) for text in known[piece.text].texts):
            piece.cut = list(cut_at_words(piece))
    inner = [one for piece in pieces for one in piece.cut if isinstance(one, Piece)]
    run(translator, inner, known, how)
    marked = (piece for piece in [*pieces, *inner] if piece.marks)
    pairs = list(dict.fromkeys((piece.text, other) for piece in marked for other in known[piece.text].texts))
    links = dict(zip(pairs, aligned(translator, pairs), strict=True))
    return [assemble(items, known, links) for items in plans]


def run(translator: Translates, pieces: list[Piece], known: Known, how: How) -> None:
    """Each different text once, so that a text is translated the same wherever it stands."""
    new = [text for text in dict.fromkeys(piece.text for piece in pieces) if text not in known]
    asked = [text.replace(SPACE, " ") for text in new]
    found = translator.translate(asked, **how) if new else []
    for text, plain, one in zip(new, asked, found, strict=True):
        ranked = [" ".join(other.split()) for other in [other.text for other in one.alternatives] or [one.text]]
        known[text] = Answer([without_stop(plain, other) or plain for other in ranked], one.remarks())


def without_stop(source: str, target: str) -> str:
    """A heading, a cell or a piece of a sentence has no full stop; models that know only sentences add one."""
    return target.rstrip(" .。") if source[-1].isalnum() else target


# -- cutting ---------------------------------------------------------------------------------------------------------


def plan(segment: Parts, also: Patterns) -> Iterator[Piece | str | Mark]:
    """What to translate, and between it what to leave: the segment in its order."""
    unit: Parts = []
    parts = [one for part in segment for one in (set_aside(part, also) if isinstance(part, str) else [part])]
    for part in parts:
        if isinstance(part, Mark) and part.kind != "gap":
            unit.append(part)
            continue
        for number, one in enumerate(GAPS.split(part) if isinstance(part, str) else ("", part)):
            if number % 2:
                yield from sentences(unit)
                yield one
                unit = []
            elif isinstance(one, str):
                unit += protect(one)
    yield from sentences(unit)


def sentences(unit: Parts) -> Iterator[Piece | str | Mark]:
    """The sentences of a line as pieces; what has no words in it as it is."""
    taken = {number for part in unit if isinstance(part, str) for number in NUMBERS.findall(part)}
    free = (str(number) for number in count(FIRST) if str(number) not in taken)
    text = ""
    marks: Marks = []
    words: Words = []
    for part in unit:
        if isinstance(part, str):
            text += part
        elif part.kind == "word":
            words.append((len(text), next(free), part))
            text += words[-1][1]
        else:
            marks.append((len(text), part))
            text += SPACE if part.kind == "space" else ""
    several = split_sentences(text) or [""]
    begin = 0
    for at, sentence in enumerate(several):
        end = begin + len(sentence)
        own, marks = share(marks, begin, end, is_last=at + 1 == len(several))
        held = words[bisect_left(words, (begin,)) : bisect_left(words, (end,))]
        inside = [(offset - begin, number, mark) for offset, number, mark in held]
        if has_words(sentence):
            yield trimmed(sentence, own, sentence.strip(), inside)
        else:
            yield from as_it_is(sentence, own, inside)
        begin = end


def share(marks: Marks, begin: int, end: int, *, is_last: bool) -> tuple[Marks, Marks]:
    """The marks of this piece of a text, with their offsets in it, and the others. At a border, closes end a piece."""
    number = 0
    for offset, mark in marks:
        if not (is_last or offset < end or (offset == end and mark.kind == "close")):
            break
        number += 1
    return [(offset - begin, mark) for offset, mark in marks[:number]], marks[number:]


def trimmed(text: str, marks: Marks, core: str, words: Words) -> Piece:
    """A piece of the core of a text, in which the placeholders are; the rest is before and after it."""
    start = text.index(core)
    end = start + len(core)
    before = as_it_is(text[:start], [one for one in marks if one[0] < start], [])
    held = [(offset - start, mark) for offset, mark in marks if start <= offset <= end]
    after = as_it_is(text[end:], [(offset - end, mark) for offset, mark in marks if offset > end], [])
    return Piece(core, held, before, after, [(offset - start, number, mark) for offset, number, mark in words])


def has_words(text: str) -> bool:
    """Whether there is a letter besides the placeholders (whose numbers have none)."""
    return any(letter.isalpha() for letter in text)


def cut_at_words(piece: Piece) -> Iterator[Piece | str | Mark]:
    """The placeholders, and the pieces between them."""
    begin, marks = 0, piece.marks
    for offset, number, mark in [*piece.words, (len(piece.text), "", None)]:
        own, marks = share(marks, begin, offset + 1, is_last=mark is None)  # at its offset, marks come before it
        text = piece.text[begin:offset]
        if has_words(text) and (found := WORDS.search(text)):
            yield trimmed(text, own, found[0], [])
        else:
            yield from as_it_is(text, own, [])
        if mark:
            yield mark
        begin = offset + len(number)


def as_it_is(text: str, marks: Marks, words: Words) -> Parts:
    # At one offset a mark is before a placeholder, whose number has moved what comes after it.
    both = sorted([*((at, "", mark) for at, mark in marks), *words], key=lambda m: (m[0], m[1]))
    parts = replaced(text, ((at, at + len(number), mark) for at, number, mark in both))
    return [part.replace(SPACE, "") if isinstance(part, str) else part for part in parts]


# -- putting together ------------------------------------------------------------------------------------------------


def keeps(text: str, piece: Piece) -> bool:
    """Whether each number is in the translation exactly once; and stood alone in the source, too."""
    if not piece.words:
        return True
    numbers = Counter(number for _, number, _ in piece.words)
    source, target = (Counter(NUMBERS.findall(side)) for side in (piece.text, text))
    return (
        numbers <= Counter(ALONE.findall(piece.text))
        and numbers <= Counter(ALONE.findall(text))
        and all(target[number] == 1 for number in numbers)
        and target.keys() <= source.keys()  # no copy with a mistake in it
    )


def restored(text: str, words: Words) -> Parts:
    """The text with the placeholders in the places of their numbers."""
    marks = {number: mark for _, number, mark in words}
    return replaced(text, ((*match.span(), marks[match[0]]) for match in ALONE.finditer(text) if match[0] in marks))


def aligned(translator: Translates, pairs: list[tuple[str, str]]) -> list[Links]:
    """By the model's attention; in proportion where there is none to read, or a text is too long for the model."""
    find = partial(align, translator) if isinstance(translator, Translator) else getattr(translator, "align", None)
    if find is None:
        return [in_proportion(*pair) for pair in pairs]
    try:
        links: list[Links] = find(pairs)
        return links
    except InputError:
        if len(pairs) > 1:
            return [links for pair in pairs for links in aligned(translator, [pair])]
        return [in_proportion(*pair) for pair in pairs]


def assemble(items: list[Piece | str | Mark], known: Known, links: LinksOf) -> Done:
    pieces = [item for item in items if isinstance(item, Piece)]
    if not pieces:
        return Done(None)
    ranks = range(min(len(known[piece.text].texts) for piece in pieces))
    ranked = [[part for item in items for part in render(item, rank, known, links)] for rank in ranks]
    used = (one for piece in pieces for one in ([piece] if keeps(known[piece.text].texts[0], piece) else piece.cut))
    remarks = [remark for piece in used if isinstance(piece, Piece) for remark in known[piece.text].remarks]
    return Done(ranked, list(dict.fromkeys(remarks)))


def render(item: Piece | str | Mark, rank: int, known: Known, links: LinksOf) -> Parts:
    """A piece in its translation of this rank or, if that lost a placeholder, what it is cut into in theirs."""
    if not isinstance(item, Piece):
        return [item]
    several = known[item.text].texts
    text = several[min(rank, len(several) - 1)]
    if keeps(text, item):
        placed = place(item.text, text, item.marks, links.get((item.text, text), []))
        inner = [part for some in placed for part in (restored(some, item.words) if isinstance(some, str) else [some])]
    else:
        inner = [part for one in item.cut for part in render(one, rank, known, links)]
    return [*item.before, *inner, *item.after]
