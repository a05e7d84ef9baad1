"""What all formats share: a file's text, the segments found in it, and the translations put into their places."""

import codecs
import html
import re
from dataclasses import dataclass
from typing import Literal

from qkv.documents.segment import Mark, Parts
from qkv.documents.tags import Element, Tag, decoded, elements, end_of, scan
from qkv.errors import InputError
from qkv.text.language import matches
from qkv.text.markup import CODES, check_xml, wrong_root

MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
DECLARED = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s{0,9}=\s{0,9}["']([A-Za-z0-9._-]{1,40})["']""")
Origin = Literal["", "machine", "exact-match"]  # of a translation; empty where nothing is to be told
# What Python can decode but no file declares: escapes and parts of addresses, which give lone surrogates or no text.
NO_ENCODING = frozenset(["idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"])


@dataclass(frozen=True)
class Languages:
    """Those of the translator; empty where its model folder does not say."""

    source: str = ""
    target: str = ""

    def is_source(self, code: str) -> bool:
        """Whether a text that says so is in the language that is translated, into one that has a name."""
        return bool(self.source and self.target and (matches(self.source, code) or matches(code, self.source)))

    def check(self, name: str, place: str, code: str | None, side: str) -> None:
        """Refuse a file that says it is in another language."""
        own = self.source if side == "source" else self.target
        if code and own and not matches(own, code) and not matches(code, own):
            raise InputError(
                f"{name} has {place} {code}, but the model's {side} language is {own}; give a file for this model, "
                f"or a model for this file"
            )


class Format:
    """A document of one format: its segments out, their translations in, all else to the letter."""

    has_accelerators = False  # whether its texts may be those of menus and buttons

    def __init__(self, data: bytes, name: str, languages: Languages) -> None:
        self.name, self.languages = name, languages
        self.segments: list[Parts] = []
        self.kept = 0  # entries that have a translation already, or shall have none
        self.remarks: list[str] = []
        self.known: dict[str, Parts] = {}  # what the file itself has a translation of, by its code
        self.apart: set[int] = set()  # segments that stand for something else than their text, as plurals do
        self.reused: dict[int, str] = {}  # segments whose translations are exact matches, and of what; before `write`
        self.final = False  # whether translations are not to be marked as a machine's
        self.open(data)

    def open(self, data: bytes) -> None:
        """Find the segments."""
        raise NotImplementedError

    def write(self, done: list[Parts | None]) -> bytes:
        """The file with the translations; None where a segment has nothing to translate."""
        raise NotImplementedError


class TextFormat(Format):
    """A format that is text: translations replace spans of it."""

    is_markup = False  # whether text is spelled with entities

    def open(self, data: bytes) -> None:
        self.spans: list[tuple[int, int]] = []  # where the segments are
        self.untranslated: list[str] = []  # what comes there if there is nothing to translate
        self.around: list[tuple[str, str]] = []  # what comes before and after it
        self.edits: list[tuple[int, int, str]] = []  # other changes: start, end, new text
        self.mark, self.encoding, self.text = decode(data, self.name)
        self.find()

    def find(self) -> None:
        """Call `add` for each segment of self.text."""
        raise NotImplementedError

    def add(
        self, start: int, end: int, parts: Parts, untranslated: str | None = None, around: tuple[str, str] = ("", "")
    ) -> None:
        self.segments.append(parts)
        self.spans.append((start, end))
        self.around.append(around)
        self.untranslated.append(self.text[start:end] if untranslated is None else untranslated)

    def spelled(self, parts: Parts) -> str:
        """Parts as the format spells them."""
        texts = [(part, True) if isinstance(part, str) else (part.code, part.is_text) for part in parts]
        return "".join(
            html.escape(text, quote=False) if is_text and self.is_markup else text for text, is_text in texts
        )

    def spelled_at(self, number: int, parts: Parts) -> str:
        """The same, in a format in which it is not the same for all segments."""
        return self.spelled(parts)

    def write(self, done: list[Parts | None]) -> bytes:
        edits = self.edits + self.marked([self.origin(*one) for one in enumerate(done)])
        every = zip(self.spans, self.around, self.untranslated, done, strict=True)
        for number, (span, (before, after), untranslated, parts) in enumerate(every):
            new = untranslated if parts is None else self.spelled_at(number, parts)
            edits.append((*span, before + new + after))
        return self.encoded(edited(self.text, edits))

    def origin(self, number: int, parts: Parts | None) -> Origin:
        """Where the translation of a segment comes from, if that is to be told."""
        return "" if parts is None or self.final else "exact-match" if number in self.reused else "machine"

    def marked(self, origins: list[Origin]) -> list[tuple[int, int, str]]:
        """Changes that tell where each segment's translation comes from, in a format that has a place for it."""
        return []

    def encoded(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding, "xmlcharrefreplace")


class XmlFormat(TextFormat):
    """A format that is XML: checked, then edited as text."""

    is_markup = True

    def open(self, data: bytes) -> None:
        check_xml(data, self.name)
        super().open(data)

    def elements(self, root: str, wanted: str) -> list[Element]:
        """All of them, of which the root is the last."""
        found = list(elements(self.text))
        name = found[-1].name if found else ""
        if name != root:
            raise InputError(wrong_root(self.name, name, root, wanted))
        return found

    def space_before(self, at: int) -> str:
        """The line end and the indentation before this place."""
        start = at
        while self.text[start - 1 : start].isspace():
            start -= 1
        return self.text[start:at]

    def fill(self, start: int, end: int, source: Element, before: str = "", after: str = "") -> None:
        """Add what is in an element as a segment that comes elsewhere, between two pieces of XML."""
        self.add(start, end, self.parts(*source.inside), self.text[slice(*source.inside)], (before, after))

    def parts(self, start: int, end: int) -> Parts:
        """Text with marks for its inline elements; what is in a native code (`bpt`, `ph` ...) is no text."""
        parts: Parts = []
        skip = at = start
        tags = list(scan(self.text, start, end))
        for number, tag in enumerate(tags):
            if tag.start < skip:
                continue
            parts += decoded(self.text[at : tag.start], gap)
            skip = tag.end
            if tag.text.startswith("<![CDATA["):
                parts.append(tag.text[9:-3])
            elif tag.is_open and not tag.is_close and (tag.name in CODES or is_protected(tag)):
                skip = tags[end_of(tags, number)].end
                parts.append(Mark(self.text[tag.start : skip], "alone" if tag.name in CODES else "word"))
            elif tag.is_open == tag.is_close:
                parts.append(Mark(tag.text))
            else:
                parts.append(Mark(tag.text, "open" if tag.is_open else "close", tag.name))
            at = skip
        return parts + decoded(self.text[at:end], gap)


def is_protected(tag: Tag) -> bool:
    """XLIFF's mrk around a name or a piece of code: mtype="protected" in 1.2, translate="no" in 2.x."""
    return tag.name == "mrk" and (tag.get("mtype") == "protected" or tag.get("translate") == "no")


def gap(entity: str, character: str) -> Mark | None:
    """A line end or tab that is spelled as an entity stays so."""
    return Mark(entity, "gap") if character in "\n\r\t" else None


def edited(text: str, edits: list[tuple[int, int, str]], start: int = 0, end: int | None = None) -> str:
    """The text from start to end with those of the edits that lie in it."""
    end = len(text) if end is None else end
    parts = []
    for first, last, new in sorted(edits, key=lambda edit: edit[:2]):
        if start <= first and last <= end:
            parts += [text[start:first], new]
            start = last
    return "".join([*parts, text[start:end]])


def decode(data: bytes, name: str) -> tuple[bytes, str, str]:
    """The byte order mark, the encoding and the text: UTF-8, or what a mark or an XML declaration says."""
    mark = next((mark for mark in MARKS if data.startswith(mark)), b"")
    declared = DECLARED.match(data)
    encoding = MARKS[mark] if mark else declared[1].decode() if declared else "utf-8"
    try:
        if codecs.lookup(encoding).name in NO_ENCODING:
            raise LookupError
        text = data[len(mark) :].decode(encoding)
    except LookupError:
        raise InputError(f"{name} declares the encoding {encoding}, which is unknown; save it as UTF-8") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[len(mark) + error.start]
        raise InputError(
            f"{name} line {line} is not {encoding.upper()} (byte 0x{byte:02x}); save the file as UTF-8"
        ) from None
    if "\0" in text:
        raise InputError(f"{name} holds a NUL character, which no text does; check that its name has the right ending")
    return mark, encoding, text
