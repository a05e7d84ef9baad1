"""What a command reads: its arguments, the lines of a file, or standard input; some lines at a time."""

import os.path
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TypeVar

from qkv.errors import InputError
from qkv.files import replacing

T = TypeVar("T")
FILES = (".txt", ".tsv", ".csv", ".json", ".jsonl", ".conll", ".conllu")  # which no text ends in
CHUNK = 1024  # lines at a time, so that long files show progress and need little memory


def is_path(text: tuple[str, ...]) -> bool:
    """One file, or a pipe such as a shell's <(..)."""
    # Path's own questions fail for a text of more than 255 bytes.
    return len(text) == 1 and os.path.exists(text[0]) and not os.path.isdir(text[0])  # noqa: PTH110, PTH112


def input_chunks(text: tuple[str, ...], done: str, asked: str) -> Iterator[list[str]]:
    """The texts that are given, or the lines of the one file that is named, or those of standard input: some at a time,
    and each at once where a person types them."""
    from qkv.text.lines import read_lines, suffix

    if is_path(text):
        return chunks(read_lines(Path(text[0])))
    for one in text:
        if not Path(one).suffix or re.search(r"\s", one):
            continue
        if suffix(Path(one)) in FILES:
            if is_path((one,)):
                raise InputError(f"{one!r} is a file, and one file alone is read; give it without the others")
            raise InputError(f"there is no file {one!r}; check the path")
        else:  # it may be a file's name or a word
            print(f"{one!r} was not read as a file, it is {done} as text", file=sys.stderr)
    if text:
        return chunks(text)
    is_typed = sys.stdin.isatty()
    if is_typed:
        print(f"type {asked} and Enter; Ctrl-D ends", file=sys.stderr)
    return chunks(standard_input(), 1 if is_typed else CHUNK)


def standard_input() -> Iterator[str]:
    for number, data in enumerate(sys.stdin.buffer, start=1):
        try:
            line = data.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"line {number}, byte {error.start + 1} (0x{data[error.start]:02x})"
            raise InputError(f"standard input is not UTF-8 in {place}; convert it to UTF-8 text") from None
        yield (line.removeprefix("\ufeff") if number == 1 else line).removesuffix("\n").removesuffix("\r")


def chunks(several: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    several = iter(several)
    while some := list(islice(several, size)):
        yield some


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Where to write: the whole file or none; but a device or a pipe is written as it is, never replaced by a file."""
    above = next((folder for folder in path.parents if folder.exists()), Path())
    if path.is_dir() or not above.is_dir():
        taken, kind = (path, "folder") if path.is_dir() else (above.name, "file")
        raise InputError(f"cannot write {path}, since {taken} is a {kind}; give --output the name of a new file")
    place = nullcontext(path) if path.exists() and not path.is_file() else replacing(path)
    try:
        with place as new:
            yield new
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; give --output another place") from None
