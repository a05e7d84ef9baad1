"""What a command reads: its arguments, the lines of a file, or standard input; some lines at a time."""

import os.path
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import TypeVar

from qkv.errors import InputError
from qkv.files import replacing, write_text
from qkv.text.lines import WHOLE, LineRange, read_lines, share, suffix

T = TypeVar("T")
FILES = (".txt", ".tsv", ".csv", ".json", ".jsonl", ".conll", ".conllu")  # which no text ends in
CHUNK = 1024  # lines at a time, so that long files show progress and need little memory


@contextmanager
def counting(what: str, unit: str) -> Iterator[Callable[[int], None]]:
    """Within, what is told how many are done shows it on standard error, if a person is there to see it."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from qkv.display import Display

    with Display().counting(what, None, unit) as tick:
        yield tick


def is_path(text: tuple[str, ...]) -> bool:
    """One file, or a pipe such as a shell's <(..)."""
    # Path's own questions fail for a text of more than 255 bytes.
    return len(text) == 1 and os.path.exists(text[0]) and not os.path.isdir(text[0])  # noqa: PTH110, PTH112


def part_of(shard: str | None, text: tuple[str, ...], output: Path | None, model: Path) -> LineRange | None:
    """The part of the one file that is named which --shard asks for; all of it, if nothing does. None if the part is
    written already, which is said: it has appeared whole, and is newer than what it is made of."""
    if shard is None:
        return WHOLE
    number, _, count = shard.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise InputError(f"--shard {shard} names no part of a file; give one from 1/8 to 8/8, if there are to be 8")
    if not is_path(text) or output is None:
        raise InputError(
            "--shard is for the lines of a file, and each part has a file of its own; name both, the latter with -o"
        )
    made_of = [Path(text[0]), *model.glob("*.safetensors"), *model.glob("*.qkv")]
    if output.is_file() and output.stat().st_mtime >= max(path.stat().st_mtime for path in made_of):
        print(f"{output} is there already: left as it is; delete it to have it made again", file=sys.stderr)
        return None
    return share(Path(text[0]), int(number), int(count))


def input_chunks(text: tuple[str, ...], done: str, asked: str, part: LineRange = WHOLE) -> Iterator[list[str]]:
    """The texts that are given, or the lines of the one file that is named or of a part of it, or those of standard
    input: some at a time, and each at once where a person types them."""
    if is_path(text):
        return chunks(read_lines(Path(text[0]), part))
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


def beside(output: Path | None) -> Path | None:
    """Where the remarks about what is written go: news.de.remarks.txt for news.de; nowhere beside a pipe."""
    is_file = output is not None and (output.is_file() or not output.exists())
    return output.with_name(f"{output.name}.remarks.txt") if output and is_file else None


class Remarks:
    """What is to be said of single lines: of the first few at once; of more their number, and all in a file."""

    FEW = 3

    def __init__(self, file: Path | None) -> None:
        self.file, self.told = file, list[str]()

    def add(self, said: str) -> None:
        self.told.append(said)
        if len(self.told) <= self.FEW:
            print(said, file=sys.stderr)

    def close(self) -> None:
        """The number of those that were not said, and where they are."""
        more = len(self.told) - self.FEW
        if more <= 0:
            return
        where = "name a file with -o to have them all beside it"
        if self.file:
            write_text(self.file, "".join(f"{said}\n" for said in self.told))
            where = f"all are in {self.file}"
        print(f"{more:,} more remark{'s' * (more != 1)}; {where}", file=sys.stderr)


@contextmanager
def printing_to(output: Path | None) -> Iterator[None]:
    """What is printed goes to this file, if there is one: the whole of it or none."""
    if output is None:
        yield
        return
    with new_file(output) as new, new.open("w", encoding="utf-8") as file, redirect_stdout(file):
        yield


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
