"""Whole files: read by the format that their names end in, translated in one batch, written whole or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qkv.documents.accelerators import with_accelerator, without_accelerator
from qkv.documents.docx import Docx
from qkv.documents.exchange import Tmx, Xliff
from qkv.documents.format import Format, Languages, decode
from qkv.documents.html import Html
from qkv.documents.markdown import Markdown
from qkv.documents.memory import exact_matches, read_memory
from qkv.documents.po import Po
from qkv.documents.protect import Patterns
from qkv.documents.segment import Mark, Translates, about_of
from qkv.documents.subtitles import Subtitles, WebVtt
from qkv.documents.text import PlainText
from qkv.documents.translate import translate_segments
from qkv.documents.values import Arb, Json, Properties, Strings, Yaml
from qkv.errors import InputError
from qkv.files import read_bytes, write_with
from qkv.text.language import is_language
from qkv.text.lines import check_file, opened
from qkv.text.lines import suffix as suffix_of

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
    ".json": Json,
    ".arb": Arb,
    ".properties": Properties,
    ".strings": Strings,
    ".yaml": Yaml,
    ".yml": Yaml,
}
# Endings of plain text, and of formats that are none of ours though some of them could be a language's code.
PLAIN = (".bpe", ".hyp", ".inp", ".log", ".out", ".raw", ".ref", ".spm", ".src", ".tgt", ".tok", ".trg")
NO_LINES = (
    "ass bz2 csv doc dot epub gif idml ini jpg js jsonl jsx odg odp ods odt otp ott pdf php png pot ppsx ppt pptx py "
    "rar rc resx rst rtf sdlxliff sql srx ssa sub svg tar tex toml ts tsv tsx vue xls xlsx xml zip"
)
OTHERS = frozenset(f".{ending}" for ending in NO_LINES.split())
LARGEST = 2**26  # bytes of a file; a document is in memory as a whole


@dataclass(frozen=True)
class FileReport:
    """What was done with a file."""

    translated: int  # segments with words in them
    kept: int  # segments without, and entries that have a translation already or shall have none
    remarks: list[str] = field(default_factory=list)
    reused: int = 0  # segments that the memory, or the file itself, had a translation of

    def __str__(self) -> str:
        reused = f"{self.reused} reused, " if self.reused else ""
        return f"{self.translated} segment{'s' * (self.translated != 1)} translated, {reused}{self.kept} kept"


def translate_file(
    translator: Translates, source: Path, target: Path,
    *, name: str | None = None, protect: Patterns = (), memory: Sequence[Path] = (), final: bool = False, **how: Any,
) -> FileReport:  # fmt: skip
    """Translate one file into another of the same format, which is known by how `name` ends, or else the source's.

    A segment that stands word for word in a `memory`, a file of pairs (.tmx, .po, .tsv ...), or has a translation
    elsewhere in the file itself, has that one. PO, XLIFF and TMX tell which translations are a machine's, and which are
    exact matches, unless `final`.
    """
    name = name or source.name
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(no_format(name, suffix))
    about = about_of(translator)
    languages = Languages(about.get("source", ""), about.get("target", ""))
    document = FORMATS[suffix](read(source), name, languages)
    document.final = final
    matches = exact_matches(document, read_memory(memory, languages))
    document.reused = {number: of for number, (_, of) in matches.items()}
    new = [number for number in range(len(document.segments)) if number not in matches]
    wanted = (
        [without_accelerator(document.segments[number]) for number in new]
        if document.has_accelerators
        else [(document.segments[number], None) for number in new]
    )
    done = translate_segments(translator, [segment for segment, _ in wanted], protect, **how)
    best = {
        number: with_accelerator(one.ranked[0], sign) if one.ranked else None
        for number, one, (_, sign) in zip(new, done, wanted, strict=True)
    }
    found = best | {number: parts for number, (parts, _) in matches.items()}
    write(target, document.write([found[number] for number in range(len(document.segments))]))
    told = zip(new, done, strict=True)
    remarks = [f"segment {number + 1} {said}" for number, one in told for said in one.remarks]
    translated = sum(one is not None for one in best.values())
    kept = document.kept + len(best) - translated
    return FileReport(translated, kept, document.remarks + remarks, len(matches))


def translate_lines(translator: Translates, source: Path, target: Path, **how: Any) -> FileReport:
    """Translate plain text line by line, as `qkv translate` does: as many lines come out."""
    lines = decode(read(source), source.name)[2].split("\n")
    done = translator.translate(lines, **how)
    write(target, "\n".join(line.text for line in done).encode("utf-8"))
    remarks = [f"line {number} {said}" for number, line in enumerate(done, start=1) for said in line.remarks()]
    translated = sum(bool(line.strip()) for line in lines)
    return FileReport(translated, len(lines) - translated - (not lines[-1]), remarks)


def text_in(path: Path) -> str:
    """All that is language in a file, its paragraphs parted by empty lines; of plain text, the text as it is."""
    suffix = path.suffix.lower()
    if suffix in FORMATS.keys() - {".txt"}:
        segments = FORMATS[suffix](read(path), path.name, Languages()).segments
        return "\n\n".join("".join(map(as_text, parts)) for parts in segments)
    if not has_lines(path, ""):
        raise InputError(no_format(path.name, suffix))
    return decode(read(path), path.name)[2]


def as_text(part: str | Mark) -> str:
    """What a reader sees of a part of a text: marks are white space, or nothing, or a word."""
    if isinstance(part, str):
        return part
    return part.code if part.kind == "word" else " " if part.kind in ("space", "gap") else ""


def no_format(name: str, suffix: str) -> str:
    return f"{name}: there is no format {suffix!r}; give a file whose name ends in {', '.join(FORMATS)}"


def has_lines(path: Path, language: str) -> bool:
    """Whether a file that is of no format here is plain text by its name: no ending, or a language (news.en)."""
    ending = suffix_of(path)
    is_plain = ending in ("", ".txt", f".{language}", *PLAIN)
    return is_plain or (is_language(ending[1:]) and ending not in OTHERS)


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
    if not path.is_fifo():
        return read_bytes(path, LARGEST)
    with opened(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise InputError(f"{path} gives more than {LARGEST:,} bytes, which are read at once; cut it in parts")
    return data
