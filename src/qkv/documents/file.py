"""Whole files: read by the format that their names end in, translated in one batch, written whole or not at all."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qkv.documents.docx import Docx
from qkv.documents.exchange import Tmx, Xliff
from qkv.documents.format import Format, Languages
from qkv.documents.html import Html
from qkv.documents.markdown import Markdown
from qkv.documents.po import Po
from qkv.documents.protect import Patterns
from qkv.documents.segment import Translates
from qkv.documents.subtitles import Subtitles, WebVtt
from qkv.documents.text import PlainText
from qkv.documents.translate import translate_segments
from qkv.errors import InputError
from qkv.files import write_with
from qkv.folder import About
from qkv.text.lines import check_file

FORMATS: dict[str, type[Format]] = {
    ".txt": PlainText,
    ".srt": Subtitles,
    ".vtt": WebVtt,
    ".html": Html,
    ".htm": Html,
    ".md": Markdown,
    ".po": Po,
    ".xlf": Xliff,
    ".xliff": Xliff,
    ".tmx": Tmx,
    ".docx": Docx,
}
LARGEST = 2**26  # bytes of a file; a document is in memory as a whole


@dataclass(frozen=True)
class FileReport:
    """What was done with a file."""

    translated: int  # segments with words in them
    kept: int  # segments without, and entries that have a translation already or shall have none
    remarks: list[str] = field(default_factory=list)


def translate_file(
    translator: Translates, source: Path, target: Path, *, name: str | None = None, protect: Patterns = (), **how: Any
) -> FileReport:
    """Translate one file into another of the same format, which is known by how `name` ends, or else the source's."""
    name = name or source.name
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError(f"{name}: there is no format {suffix!r}; give a file whose name ends in {known}")
    about: About = getattr(translator, "about", About())
    languages = Languages(about.get("source", ""), about.get("target", ""))
    document = FORMATS[suffix](read(source), name, languages)
    done = translate_segments(translator, document.segments, protect, **how)
    best = [one.ranked[0] if one.ranked else None for one in done]
    write(target, document.write(best))
    remarks = [f"segment {number} {said}" for number, one in enumerate(done, start=1) for said in one.remarks]
    translated = sum(one is not None for one in best)
    return FileReport(translated, document.kept + len(best) - translated, document.remarks + remarks)


def write(path: Path, data: bytes) -> None:
    """The whole file or none; but a device or a pipe is written as it is, and never replaced by a file."""
    if path.is_dir():
        raise InputError(f"cannot write {path}, since it is a folder; give the name of a new file")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            write_with(path, lambda temporary: temporary.write_bytes(data))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; give another place") from None


def read(path: Path) -> bytes:
    check_file(path)
    size = path.stat().st_size
    if size > LARGEST:
        raise InputError(f"{path} has {size:,} bytes, and at most {LARGEST:,} are read at once; cut it in parts")
    return path.read_bytes()
