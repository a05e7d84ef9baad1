"""Segments of text and marks, translated: everything that is not language comes back as it was.

A segment is cut at its gaps (line ends, tabs, wide spaces) and into sentences. Each sentence goes to the model with a
number in the place of each placeholder. If the numbers come back, the placeholders take their places again; if not, the
sentence is cut at its placeholders and the pieces between them are translated, so that they stay where they are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, groupby, takewhile
from typing import Any, Union

from qkv.documents.place import EVENLY, Links, Marks, in_proportion, is_even, place
from qkv.documents.protect import Patterns, protect, set_aside
from qkv.documents.segment import Mark, Parts, Translates, about_of, changed, replaced
from qkv.errors import InputError
from qkv.folder import splits
from qkv.text.language import is_unspaced
from qkv.text.sentences import Splitter, split_sentences

# Line ends as str.splitlines knows them, tabs, and more than one space.
GAPS = re.compile("[^\\S\\n]*[\\n\\r\\t\\v\\f\\x1c-\\x1f\\x85\u2028\u2029]\\s*|[^\\S\\n\\r]{2,}")
WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)  # from the first letter or digit to the last
SPACE = "\x1f"  # in a text, where a mark of the kind "space" stands; GAPS leave it no other meaning
NUMBERS = re.compile(r"\d+")
ALONE = re.compile(r"(?<![\w.,])\d+(?!\w|[.,]\d)")  # no part of a word or of another number
# A placeholder that means the next one of some values: %s and {}, unlike %1$s, %(name)s and {0}.
COUNTED = re.compile(r"%(?![%(]|\d+\$)[-+ #0'*.\dhlLqjzt]*[A-Za-z@<]|\{\}")
FIRST = 123  # the first number that takes a placeholder's place; of all words, models copy numbers best

Item = Union["Piece", str, Mark]
Known = dict[str, tuple[list[str], list[str]]]  # the answers and remarks by the text that the model was given
LinksOf = dict[tuple[str, str], Links]  # of a source and its translation
Stands = list[tuple[int, str, Mark]]  # marks, each with its offset and with what stands for it there


@dataclass
class Piece:
    """Text for the model, with white space (or punctuation) around it and marks in it.

    For a placeholder a number stands in the text, for a mark of the kind "space" SPACE, and for any other nothing.
    """

    text: str
    stands: Stands
    before: Parts
    after: Parts
    answers: list[str] = field(default_factory=list)  # its translations, the best first
    remarks: list[str] = field(default_factory=list)  # what is to be said about them
    cut: list[Item] = field(default_factory=list)  # at its placeholders, where a translation lost one

    @property
    def words(self) -> dict[str, Mark]:
        """The placeholders by their numbers."""
        return {number: mark for _, number, mark in self.stands if mark.kind == "word"}

    @property
    def counted(self) -> list[str]:
        """Of the placeholders, those whose order is their meaning."""
        return [number for number, mark in self.words.items() if COUNTED.search(mark.code)]

    @property
    def marks(self) -> Marks:
        """All but the placeholders."""
        return [(offset, mark) for offset, _, mark in self.stands if mark.kind != "word"]

    def is_kept_in(self, text: str) -> bool:
        """Whether each number is in a translation exactly once, and stood alone in the source, too; and whether those
        that are told apart by their order alone are in that order."""
        if not self.words:
            return True
        source, target = (NUMBERS.findall(side) for side in (self.text, text))
        return (
            self.words.keys() <= set(ALONE.findall(self.text)) & set(ALONE.findall(text))
            and all(target.count(number) == 1 for number in self.words)
            and set(target) <= set(source)  # no copy with a mistake in it
            and [number for number in target if number in self.counted] == self.counted
        )


@dataclass(frozen=True)
class Done:
    """A segment as it came back: the best translation first, or None where nothing was to be translated."""

    ranked: list[Parts] | None
    remarks: list[str] = field(default_factory=list)


def translate_segments(
    translator: Translates, segments: list[Parts], also: Patterns = (), *, split: bool | None = None, **how: Any
) -> list[Done]:
    """All sentences of all segments in one batch; a second one for those that lost a placeholder.

    `split` says whether lines are parted into sentences; as the model has learned it, unless given.
    """
    parted = split_sentences if (splits(about_of(translator)) if split is None else split) else whole
    how |= {} if split is None else {"split": split}
    is_spaced = not is_unspaced(about_of(translator).get("target", ""))
    plans = [list(plan(segment, also, parted, is_spaced)) for segment in segments]
    pieces = [item for items in plans for item in items if isinstance(item, Piece)]
    known: Known = {}
    run(translator, pieces, known, how)
    for piece in pieces:
        if not all(map(piece.is_kept_in, piece.answers)):
            piece.cut = list(cut_at_words(piece))
    inner = [one for piece in pieces for one in piece.cut if isinstance(one, Piece)]
    run(translator, inner, known, how)
    marked = [piece for piece in [*pieces, *inner] if piece.marks]
    pairs = list(dict.fromkeys((piece.text, other) for piece in marked for other in piece.answers))
    links = dict(zip(pairs, aligned(translator, pairs), strict=True))
    for piece in marked:
        if any(is_even(piece.text, other, piece.marks, links[piece.text, other]) for other in piece.answers):
            piece.remarks = [*piece.remarks, EVENLY]
    return [assemble(items, links) for items in plans]


def run(translator: Translates, pieces: list[Piece], known: Known, how: dict[str, Any]) -> None:
    """Each different text once, so that a text is translated the same wherever it stands."""
    new = [text for text in dict.fromkeys(piece.text for piece in pieces) if text not in known]
    asked = [text.replace(SPACE, " ") for text in new]
    found = translator.translate(asked, **how) if new else []
    for text, plain, one in zip(new, asked, found, strict=True):
        ranked = [" ".join(other.split()) for other in [other.text for other in one.alternatives] or [one.text]]
        known[text] = [without_stop(plain, other) or plain for other in ranked], one.remarks()
    for piece in pieces:
        piece.answers, piece.remarks = known[piece.text]


def without_stop(source: str, target: str) -> str:
    """A heading, a cell or a piece of a sentence has no full stop; models that know only sentences add one."""
    return target.rstrip(" .。") if source[-1].isalnum() else target


# -- cutting ---------------------------------------------------------------------------------------------------------


def whole(text: str) -> list[str]:
    """A line that is not parted."""
    return [text]


def plan(segment: Parts, also: Patterns, parted: Splitter, is_spaced: bool) -> Iterator[Item]:
    """What to translate, and between it what to leave: the segment in its order."""
    parts = changed(changed(segment, partial(set_aside, also=also)), gaps)
    for is_gap, group in groupby(parts, lambda part: isinstance(part, Mark) and part.kind == "gap"):
        unit = list(group)
        yield from unit if is_gap else sentences(changed(unit, protect), parted, is_spaced)


def gaps(text: str) -> Parts:
    return replaced(text, ((*gap.span(), Mark(gap[0], "gap", is_text=True)) for gap in GAPS.finditer(text)))


def sentences(unit: Parts, parted: Splitter, is_spaced: bool) -> Iterator[Item]:
    """The sentences of a line as pieces; what has no words in it as it is. `is_spaced` says whether the language that
    is translated into has spaces between sentences: that the source has them or not is no matter."""
    taken = {number for part in unit if isinstance(part, str) for number in NUMBERS.findall(part)}
    free = (str(number) for number in count(FIRST) if str(number) not in taken)
    text = ""
    stands: Stands = []
    for part in unit:
        if isinstance(part, Mark):
            stands.append((len(text), next(free) if part.kind == "word" else SPACE * (part.kind == "space"), part))
        text += part if isinstance(part, str) else stands[-1][1]
    begin = 0
    several = parted(text) or [""]
    for number, sentence in enumerate(several, start=1):
        end = begin + len(sentence)
        border = end if number < len(several) else len(text) + 1
        is_own = (offset < border + (mark.kind == "close") for offset, _, mark in stands)  # at a border, closes are
        size = sum(takewhile(bool, is_own))
        own, stands = moved(stands[:size], begin), stands[size:]
        if has_words(sentence):
            piece = trimmed(sentence, own, sentence.strip())
            if number < len(several):
                piece.after = apart(piece.after, is_spaced)
            yield piece
        else:
            yield from as_it_is(sentence, own)
        begin = end


def apart(after: Parts, is_spaced: bool) -> Parts:
    """What stands after a sentence that is not the last: white space as the target has it, marks as they are."""
    if not is_spaced:
        return [part for part in after if part != " "]
    has_space = any(part.isspace() if isinstance(part, str) else part.kind == "space" for part in after)
    return after if has_space else [*after, " "]


def moved(stands: Stands, begin: int) -> Stands:
    """With offsets from this one on."""
    return [(offset - begin, instead, mark) for offset, instead, mark in stands]


def trimmed(text: str, stands: Stands, core: str) -> Piece:
    """A piece of the core of a text, in which the placeholders are; the rest is before and after it."""
    start = text.index(core)
    end = start + len(core)
    before = [one for one in stands if one[0] < start]
    after = [one for one in stands if one[0] + len(one[1]) > end]
    held = stands[len(before) : len(stands) - len(after)]
    return Piece(core, moved(held, start), as_it_is(text[:start], before), as_it_is(text[end:], moved(after, end)))


def has_words(text: str) -> bool:
    """Whether there is a letter besides the placeholders (whose numbers have none)."""
    return any(letter.isalpha() for letter in text)


def cut_at_words(piece: Piece) -> Iterator[Item]:
    """The placeholders, and the pieces between them."""
    begin = 0
    held: Stands = []
    for offset, number, mark in [*piece.stands, (len(piece.text), "", None)]:
        if mark and mark.kind != "word":
            held.append((offset - begin, number, mark))
            continue
        text = piece.text[begin:offset]
        if has_words(text) and (found := WORDS.search(text)):
            yield trimmed(text, held, found[0])
        else:
            yield from as_it_is(text, held)
        if mark:
            yield mark
        begin, held = offset + len(number), []


def as_it_is(text: str, stands: Stands) -> Parts:
    return replaced(text, ((offset, offset + len(instead), mark) for offset, instead, mark in stands))


# -- putting together ------------------------------------------------------------------------------------------------


def aligned(translator: Translates, pairs: list[tuple[str, str]]) -> list[Links]:
    """By the model's attention; in proportion where there is none to read, or a text is too long for the model."""
    align = getattr(translator, "align", None)
    if align is None or not pairs:
        return [in_proportion(*pair) for pair in pairs]
    try:
        return align(*map(list, zip(*pairs, strict=True)))
    except InputError:
        if len(pairs) > 1:
            return [links for pair in pairs for links in aligned(translator, [pair])]
        return [in_proportion(*pair) for pair in pairs]


def assemble(items: list[Item], links: LinksOf) -> Done:
    pieces = [item for item in items if isinstance(item, Piece)]
    if not pieces:
        return Done(None)
    ranks = range(min(len(piece.answers) for piece in pieces))
    ranked = [[part for item in items for part in render(item, rank, links)] for rank in ranks]
    used = (one for piece in pieces for one in ([piece] if piece.is_kept_in(piece.answers[0]) else piece.cut))
    remarks = [remark for piece in used if isinstance(piece, Piece) for remark in piece.remarks]
    return Done(ranked, list(dict.fromkeys(remarks)))


def render(item: Item, rank: int, links: LinksOf) -> Parts:
    """A piece in its translation of this rank or, if that lost a placeholder, what it is cut into in theirs."""
    if not isinstance(item, Piece):
        return [item]
    text, words = item.answers[min(rank, len(item.answers) - 1)], item.words

    def restored(text: str) -> Parts:
        found = (match for match in ALONE.finditer(text) if match[0] in words)
        return replaced(text, ((*match.span(), words[match[0]]) for match in found))

    if item.is_kept_in(text):
        inner = changed(place(item.text, text, item.marks, links.get((item.text, text), [])), restored)
    else:
        inner = [part for one in item.cut for part in render(one, rank, links)]
    return [*item.before, *inner, *item.after]
