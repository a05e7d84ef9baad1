"""Word files (docx): paragraphs, tables, boxes, headers, footers and notes are translated; runs keep their look."""

import html
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter

from qkv.documents.format import Format, XmlFormat, edited
from qkv.documents.segment import Kind, Mark, Parts, code_of
from qkv.documents.tags import Element, elements
from qkv.errors import InputError

PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
LARGEST, MOST = 2**28, 10_000  # bytes unpacked, and files: a document is smaller, a zip bomb is not
TEXT = 2**24  # bytes of the parts with text; each byte takes up to eighty of memory
# What zipfile raises for damaged bytes: ValueError for places before the beginning, OSError for bzip2.
BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, NotImplementedError, ValueError,
    OverflowError,
)  # fmt: skip

AROUND = frozenset(["hyperlink", "ins", "moveTo", "smartTag"])  # elements that hold runs
SILENT = frozenset(["rPr", "lastRenderedPageBreak"])  # of a run, what is neither text nor anything between words
BREAKS = frozenset(["tab", "ptab", "br", "cr"])
ENDS: tuple[Kind, ...] = ("open", "close")
FORMULAS = frozenset(["oMath", "oMathPara", "sdt", "fldSimple"])
Items = Iterator[tuple[str | None, str | Mark]]  # texts with their formatting, which is some XML, and marks with none


class Docx(Format):
    """Word's docx, edited in place: all that is not a paragraph's text stays, byte for byte."""

    def open(self, data: bytes) -> None:
        self.members: list[tuple[zipfile.ZipInfo, bytes]] = unpacked(data, self.name)
        self.parts: list[tuple[int, Story]] = []
        size = sum(len(content) for info, content in self.members if PARTS.fullmatch(info.filename))
        if size > TEXT:
            raise InputError(f"{self.name} has {size:,} bytes of text and at most {TEXT:,} are read; cut it in parts")
        for number, (info, content) in enumerate(self.members):
            if PARTS.fullmatch(info.filename):
                story = Story(content, f"{self.name} ({info.filename})", self.languages)
                self.parts.append((number, story))
                self.segments += story.segments
        if not self.parts:
            raise InputError(f"{self.name} has no word/document.xml in it; save it as a Word document (.docx)")
        if any(story.drawn for _, story in self.parts):
            self.remarks.append("text in drawings was kept")

    def write(self, done: list[Parts | None]) -> bytes:
        rest = iter(done)
        new = {number: story.write([next(rest) for _ in story.segments]) for number, story in self.parts}
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for number, (info, content) in enumerate(self.members):
                archive.writestr(info, new.get(number, content))
        return packed.getvalue()


def unpacked(data: bytes, name: str) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """The files in a zip archive, in their order, if they are of a size that a document has."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            size = sum(info.file_size for info in members)
            if size <= LARGEST and len(members) <= MOST:
                return [(info, archive.read(info)) for info in members]
    except BROKEN as error:
        raise InputError(f"{name} is not a sound Word file ({error}); save it again as .docx") from None
    except RuntimeError:  # zipfile has no class of its own for this
        raise InputError(f"{name} is locked with a password; save it again without one") from None
    raise InputError(
        f"{name} unpacks to {size:,} bytes in {len(members):,} files, where a document has at most "
        f"{LARGEST:,} in {MOST:,}; check where it comes from"
    )


@dataclass(frozen=True)
class Paragraph:
    start: int  # of what comes after its properties
    end: int
    base: str  # the formatting of most of its text
    is_boxed: bool  # in a text box, whose drawing is a mark of another paragraph


class Story(XmlFormat):
    """One of the texts (body, header, footer, notes); marks of a formatting are pairs around its words."""

    def find(self) -> None:
        self.paragraphs: list[Paragraph] = []
        self.others: list[str] = []  # formattings, by the numbers of their marks
        self.drawn = 0  # paragraphs of drawings that are no boxes of text, which are kept
        self.boxes: dict[str, tuple[int, int]] = {}  # what holds boxes, and where: a drawing, or two forms of one
        self.prefix = "w:"
        for element in elements(self.text):  # the inner ones first
            if element.name == "p" and is_inside(element, "p") and not is_inside(element, "txbxContent"):
                self.drawn += 1
            elif element.name == "p" and not element.is_close:
                self.paragraph(element)

    def paragraph(self, element: Element) -> None:
        self.prefix = element.text[1:].partition("p")[0]
        children = element.children
        if children and children[0].name == "pPr":
            children = children[1:]
        items = list(self.items(children))
        sizes = Counter[str]()
        for properties, part in items:
            if properties is not None and isinstance(part, str):
                sizes[properties] += len(part)
        if not sizes:
            return
        base = sizes.most_common(1)[0][0]
        parts: Parts = []
        # Runs that follow each other in one formatting are one: Word cuts them at every correction.
        for properties, group in groupby(items, itemgetter(0)):
            run = [part for _, part in group]
            if properties is not None:
                run = [code_of(run)]
            if properties is not None and properties != base:
                first, last = (Mark("", kind, f"run {len(self.others)}", len(self.others)) for kind in ENDS)
                run = [first, *run, last]
                self.others.append(properties)
            parts += run
        start, end = children[0].start if children else element.inside[1], element.inside[1]
        self.paragraphs.append(Paragraph(start, end, base, is_inside(element, "txbxContent")))
        self.segments.append(parts)

    def items(self, children: list[Element]) -> Items:
        skip = 0
        for number, child in enumerate(children):
            if number < skip:
                continue
            if child.name == "r" and "begin" in self.field_marks(child):
                skip = self.field_end(children, number)
                yield None, Mark(self.text[child.start : children[skip - 1].end], "word")
            elif child.name == "r":
                yield from self.run(child)
            elif child.name in AROUND:
                yield None, Mark(child.text, "open", child.name)
                yield from self.items(child.children)
                yield None, Mark(self.text[child.inside[1] : child.end], "close", child.name)
            else:
                yield None, Mark(self.text[child.start : child.end], "word" if child.name in FORMULAS else "alone")

    def run(self, run: Element) -> Items:
        """Its text; its tabs and line breaks as gaps; anything else as it is, each in a run of its own."""
        own = run.child("rPr")
        properties = self.text[own.start : own.end] if own else ""
        for child in run.children:
            raw = self.text[child.start : child.end]
            if "txbxContent" in raw:
                self.boxes[raw] = (child.start, child.end)
            if child.name == "t":
                yield properties, html.unescape(self.text[slice(*child.inside)])
            elif child.name not in SILENT:
                code = f"<{self.prefix}r>{properties}{raw}</{self.prefix}r>"
                yield None, Mark(code, "gap" if child.name in BREAKS else "alone")

    def field_marks(self, run: Element) -> list[str]:
        """begin, separate and end of fields, which Word computes: a page number, a date."""
        return [child.get(f"{self.prefix}fldCharType") for child in run.children if child.name == "fldChar"]

    def field_end(self, children: list[Element], number: int) -> int:
        """The number of the child after the field that begins here."""
        marks = map(self.field_marks, children[number:])
        depths = accumulate(one.count("begin") - one.count("end") for one in marks)
        return next((at for at, depth in enumerate(depths, start=number + 1) if depth <= 0), len(children))

    def write(self, done: list[Parts | None]) -> bytes:
        """Boxes first, since the paragraph that a box hangs on is written with the box in it."""
        found = [(paragraph, parts) for paragraph, parts in zip(self.paragraphs, done, strict=True) if parts]
        boxed = [(one.start, one.end, self.runs(one, parts, {})) for one, parts in found if one.is_boxed]
        boxes = {raw: edited(self.text, boxed, *place) for raw, place in self.boxes.items()}
        plain = [(one.start, one.end, self.runs(one, parts, boxes)) for one, parts in found if not one.is_boxed]
        return self.encoded(edited(self.text, plain + boxed))

    def runs(self, paragraph: Paragraph, parts: Parts, boxes: dict[str, str]) -> str:
        """The XML of a paragraph's runs; what holds a box is written with the new text of the box."""
        written: list[str] = []
        first, last, properties = f"<{self.prefix}r>", f"</{self.prefix}t></{self.prefix}r>", paragraph.base
        for is_mark, group in groupby(parts, lambda part: isinstance(part, Mark) and not part.is_text):
            if not is_mark and (text := html.escape(code_of(list(group)), quote=False)):
                written.append(f'{first}{properties}<{self.prefix}t xml:space="preserve">{text}{last}')
            for part in (part for part in group if isinstance(part, Mark)):
                if part.number >= 0:
                    properties = self.others[part.number] if part.kind == "open" else paragraph.base
                written.append(part.code)
                for raw, new in boxes.items() if "txbxContent" in part.code else ():
                    written[-1] = written[-1].replace(raw, new)
        return "".join(written)


def is_inside(element: Element, name: str) -> bool:
    return element.parent is not None and any(one.name == name for one in element.parent.outwards())
