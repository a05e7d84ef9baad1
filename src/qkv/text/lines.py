"""Text files, plain or gzipped, as blocks of bytes and as lines.

A line ends at a newline and nowhere else, so that line numbers agree with `wc -l`, `sed` and editors; Python's own
`splitlines` also breaks at form feeds, U+0085 and U+2028, which stand inside sentences of real corpora.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from qkv.errors import InputError

BLOCK = 1 << 18  # bytes; larger blocks were not faster


def extra(module: str, package: str, what: object) -> Any:
    """A module of a package that only some formats need."""
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ImportError:
        raise InputError(f"reading {what} needs {package}; install it with: pip install 'qkv[formats]'") from None


def check_file(path: Path) -> None:
    """Refuse a path that cannot be read as a file. A pipe is fine, though training, which reads twice, refuses it."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder, not a file; give the path of a file")
    if not path.exists():
        raise InputError(f"there is no file {str(path)!r}; check the path")


def suffix(path: Path) -> str:
    """The end of a file's name, in small letters: ".tsv" for train.TSV.gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked if its name ends in .gz."""
    check_file(path)
    line = 1
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            while block := file.read1(BLOCK):
                yield block
                line += block.count(b"\n")
    except EOFError:
        raise InputError(f"{path} is cut short: its gzip data ends inside line {line}; copy the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path} is not sound gzip at line {line} ({error}); copy it again, or rename it if it is not packed"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from None


def read_characters(path: Path) -> Iterator[str]:
    """The text of a UTF-8 file in blocks that end anywhere, without a byte order mark and with LF for CRLF."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, column, held, is_first = 0, 0, "", True  # column: bytes of the line at hand that came in earlier blocks
    for block in chain(read_blocks(path), [b""]):
        try:
            text = held + decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            column -= len(error.object) - len(block)  # a character that began in the block before
            _refuse(path, error.object, error.start, lines, column)
        if b"\0" in block:
            _refuse(path, block, len(block), lines, column)
        if is_first and text:
            text, is_first = text.removeprefix("\ufeff"), False
        held = "\r" if block and text.endswith("\r") else ""  # half of CRLF, maybe
        if text := text.removesuffix(held).replace("\r\n", "\n"):
            yield text
        lines += block.count(b"\n")
        column = len(block) - 1 - block.rfind(b"\n") if b"\n" in block else column + len(block)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends (LF or CRLF) and without a byte order mark."""
    held: list[str] = []  # the parts of a line that goes on in the next block
    for text in read_characters(path):
        first, *lines = text.split("\n")
        held.append(first)
        if lines:
            yield "".join(held)
            yield from lines[:-1]
            held = lines[-1:]
    if last := "".join(held).removesuffix("\r"):
        yield last


def _refuse(path: Path, data: bytes, at: int, lines: int, column: int) -> NoReturn:
    """`data` begins `column` bytes into the line that follows `lines` others; its byte `at` is not UTF-8, unless a NUL
    byte comes first."""
    nul = data.find(b"\0", 0, at)
    what = "is a NUL byte, which no text holds" if nul >= 0 else "is not UTF-8"
    at = nul if nul >= 0 else at
    line = lines + data.count(b"\n", 0, at) + 1
    byte = at - data.rfind(b"\n", 0, at) + (column if line == lines + 1 else 0)
    packed = lines == 0 and data.startswith(b"\x1f\x8b")
    advice = "it is gzipped: let its name end in .gz" if packed else "save the file as UTF-8 text"
    raise InputError(f"{path} line {line}, byte {byte} (0x{data[at]:02x}) {what}; {advice}")
