"""Text files, plain or gzipped, as blocks of bytes and as lines.

A line ends at a newline and nowhere else, so that line numbers agree with `wc -l`, `sed` and editors; Python's own
`splitlines` also breaks at form feeds, U+0085 and U+2028, which stand inside sentences of real corpora.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from qkv.errors import InputError

BLOCK = 1 << 18  # bytes; larger blocks were not faster


def check_file(path: Path) -> None:
    """Refuse a path that cannot be read as a file. A pipe is fine, though training, which reads twice, refuses it."""
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder, not a file; give the path of a file with sentence pairs")
    if not path.exists():
        raise InputError(f"there is no file {str(path)!r}; check the path")


def read_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked if its name ends in .gz."""
    check_file(path)
    line = 1
    try:
        with _open(path) as file:
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


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends (LF or CRLF) and without a byte order mark."""
    done = 0
    for data in _whole_lines(path):
        lines = _decode(path, data, done).split("\n")
        if done == 0:
            lines[0] = lines[0].removeprefix("\ufeff")
        if b"\r" in data:
            lines = [line.removesuffix("\r") for line in lines]
        done += len(lines)
        yield from lines


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Blocks cut at line ends; the newline at the cut is left out."""
    held: list[bytes] = []  # the parts of a line that goes on in the next block
    for block in read_blocks(path):
        end = block.rfind(b"\n")
        if end < 0:
            held.append(block)
            continue
        yield b"".join([*held, block[:end]])
        held = [block[end + 1 :]]
    if last := b"".join(held):
        yield last


def _decode(path: Path, data: bytes, done: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(path, data, error.start, done, "is not UTF-8")
    if "\0" in text:
        _refuse(path, data, data.index(b"\0"), done, "is a NUL byte, which no text holds")
    return text


def _refuse(path: Path, data: bytes, at: int, done: int, what: str) -> NoReturn:
    line = done + data.count(b"\n", 0, at) + 1
    byte = at - data.rfind(b"\n", 0, at)
    packed = done == 0 and data.startswith(b"\x1f\x8b")
    advice = "it is gzipped: let its name end in .gz" if packed else "save the file as UTF-8 text"
    raise InputError(f"{path} line {line}, byte {byte} (0x{data[at]:02x}) {what}; {advice}")
