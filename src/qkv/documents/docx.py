"""Word files (docx): paragraphs, tables, headers, footers and notes are translated; each run keeps its formatting."""

import io
import re
import zipfile
import zlib

from qkv.documents.format import Format, decode
from qkv.documents.segment import Parts
from qkv.documents.story import Story
from qkv.documents.tags import check_xml
from qkv.errors import InputError

PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
LARGEST, MOST = 2**28, 10_000  # bytes unpacked, and files: a document is smaller, a zip bomb is not


class Docx(Format):
    """Word's docx, edited in place: all that is not a paragraph's text stays, byte for byte."""

    def open(self, data: bytes) -> None:
        self.members: list[tuple[zipfile.ZipInfo, bytes]] = unpacked(data, self.name)
        self.parts: list[tuple[int, Story]] = []
        for number, (info, content) in enumerate(self.members):
            if PARTS.fullmatch(info.filename):
                check_xml(content, f"{self.name} ({info.filename})")
                story = Story(*decode(content, f"{self.name} ({info.filename})"))
                self.parts.append((number, story))
                self.segments += [paragraph.parts for paragraph in story.paragraphs]
        if not self.parts:
            raise InputError(f"{self.name} has no word/document.xml in it; save it as a Word document (.docx)")
        if any(story.boxes for _, story in self.parts):
            self.remarks.append("text in boxes and drawings was kept")

    def write(self, done: list[Parts | None]) -> bytes:
        rest = iter(done)
        new = {number: story.write([next(rest) for _ in story.paragraphs]) for number, story in self.parts}
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
            if size > LARGEST or len(members) > MOST:
                raise InputError(
                    f"{name} unpacks to {size:,} bytes in {len(members):,} files, where a document has at most "
                    f"{LARGEST:,} in {MOST:,}; check where it comes from"
                )
            return [(info, archive.read(info)) for info in members]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise InputError(f"{name} is not a sound Word file ({error}); save it again as .docx") from None
    except RuntimeError:  # zipfile has no class of its own for this
        raise InputError(f"{name} is locked with a password; save it again without one") from None
