"""Text files, plain or gzipped, as blocks of bytes and as lines.

A line ends at a newline and nowhere else, so that line numbers agree with `wc -l`, `sed` and editors; Python's own
`splitlines` also breaks at form feeds, U+0085 and U+2028, which stand inside sentences of real corpora.
"""

import codecs
import gzip
import os
import stat
import sys
import threading
import zlib
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from qkv.errors import InputError
from qkv.files import WHOLE as LARGEST

BLOCK = 1 << 18  # bytes; larger blocks were not faster
LONGEST = 1 << 24  # characters of a line
PATIENCE = 10.0  # seconds until somebody must have begun to write into a pipe


class LineRange(NamedTuple):
    """Some lines of a file: its bytes from `begin` to `end`, and how many lines stand before them."""

    begin: int = 0
    end: int = sys.maxsize
    lines: int = 0


WHOLE = LineRange()


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


def share(path: Path, number: int, count: int) -> LineRange:
    """Share `number`, from 1, of the `count` into which a file is cut at line ends: of like size, each line in one."""
    if path.suffix.lower() == ".gz" or not path.is_file():
        raise InputError(f"{path} is packed or a pipe, which cannot be read from its middle; unpack it into a file")
    size = path.stat().st_size
    with path.open("rb") as file:
        begin, end = (line_from(file, size * k // count) for k in (number - 1, number))
        file.seek(0)
        blocks = iter(lambda: file.read(min(BLOCK, begin - file.tell())), b"")
        return LineRange(begin, end, sum(block.count(b"\n") for block in blocks))


def line_from(file: BinaryIO, at: int) -> int:
    """Where the first line begins that begins at byte `at` or after it."""
    if at == 0:
        return 0
    file.seek(at - 1)
    file.readline()
    return file.tell()


def read_blocks(path: Path, part: LineRange = WHOLE) -> Iterator[bytes]:
    """The bytes of a file, unpacked if its name ends in .gz, or of a part of it."""
    check_file(path)
    line, left = part.lines + 1, part.end - part.begin
    try:
        with opened(path) as packed, unpacked(path, packed) as file:
            if part.begin:
                file.seek(part.begin)
            while block := file.read1(min(BLOCK, left)):
                yield block
                left -= len(block)
                line += block.count(b"\n")
    except EOFError:
        raise InputError(f"{path} is cut short: its gzip data ends inside line {line}; copy the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path} is not sound gzip at line {line} ({error}); copy it again, or rename it if it is not packed"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the file") from None


def opened(path: Path) -> BinaryIO:
    """A file to read. Opening a pipe waits until somebody writes into it: that is given up after a while."""
    if not stat.S_ISFIFO(path.stat().st_mode):
        return path.open("rb")
    files: list[BinaryIO] = []
    waiting = threading.Thread(target=lambda: files.append(path.open("rb")))
    waiting.start()
    waiting.join(PATIENCE)
    if not waiting.is_alive():
        return files.pop()
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # whoever waits is let go
    waiting.join()
    files.pop().close()
    raise InputError(f"{path} is a pipe that nobody writes into; give a file, or begin to write first")


def unpacked(path: Path, file: BinaryIO) -> Any:
    return gzip.open(file, "rb") if path.suffix.lower() == ".gz" else file


def read_whole(path: Path, most: int = LARGEST) -> str:
    """The text of a file that must be read as a whole, and so may have so many characters at most."""
    parts, length = list[str](), 0
    for text in read_characters(path):
        parts.append(text)
        if (length := length + len(text)) > most:
            raise InputError(f"{path} has more than {most:,} characters, which are read at once; cut it in parts")
    return "".join(parts)


def read_characters(path: Path, part: LineRange = WHOLE) -> Iterator[str]:
    """The text of a UTF-8 file in blocks that end anywhere, without a byte order mark and with LF for CRLF."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, column, held = part.lines, 0, ""  # column: bytes of the line at hand that came in earlier blocks
    is_first = part.begin == 0
    for block in chain(read_blocks(path, part), [b""]):
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


def read_lines(path: Path, part: LineRange = WHOLE) -> Iterator[str]:
    """The lines of a UTF-8 file, or of a part, without their ends (LF or CRLF) and without a byte order mark."""
    held: list[str] = []  # the parts of a line that goes on in the next block,
    length, count = 0, part.lines + 1  # how long they are, and the number of the line
    for text in read_characters(path, part):
        first, *lines = text.split("\n")
        held.append(first)
        if (length := length + len(first)) > LONGEST:
            raise InputError(
                f"{path} line {count} has more than {LONGEST:,} characters; put line ends between its sentences"
            )
        count += len(lines)
        if lines:
            yield "".join(held)
            yield from lines[:-1]
            held, length = lines[-1:], len(lines[-1])
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
