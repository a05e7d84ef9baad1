"""Word files (docx): paragraphs, tables, boxes, headers, footers and notes are translated; runs keep their look."""

import io
import lzma
import re
import struct
import zipfile
import zlib

from qkv.documents.format import Format
from qkv.documents.segment import Parts
from qkv.documents.story import Story
from qkv.errors import InputError

PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
LARGEST, MOST = 2**28, 10_000  # bytes unpacked, and files: a document is smaller, a zip bomb is not
TEXT = 2**24  # bytes of the parts with text; each byte takes up to eighty of memory
# What zipfile raises for damaged bytes: ValueError for places before the beginning, OSError for bzip2.
BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, NotImplementedError, ValueError,
    OverflowError,
)  # fmt: skip


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
