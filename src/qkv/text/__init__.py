"""Text: sentence pairs out of files of any format, checked; sentences out of text; tokens out of sentences."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from qkv.errors import InputError
from qkv.text.jsonl import read_jsonl
from qkv.text.language import from_name
from qkv.text.lines import check_file
from qkv.text.pair import Pair
from qkv.text.plain import read_plain
from qkv.text.po import read_po
from qkv.text.table import read_csv, read_tsv
from qkv.text.tmx import read_tmx
from qkv.text.xliff import read_xliff

__all__ = ["READERS", "Pair", "languages", "read_pairs"]

# (path, source language, target language, what was skipped) -> pairs
Reader = Callable[[Path, str | None, str | None, Counter[str]], Iterator[Pair]]

# By the end of a file's name; each may be followed by .gz. Any other file is plain text, one sentence on a line.
READERS: dict[str, Reader] = {
    ".tsv": read_tsv,
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".tmx": read_tmx,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
    ".po": read_po,
}


def read_pairs(
    paths: Sequence[Path], *, source: str | None, target: str | None, skipped: Counter[str] | None = None
) -> Iterator[Pair]:
    """The pairs of one or more files with a suffix of READERS, or of two plain files, as a stream.

    `skipped` counts what was no pair at all, by reason, for example units of a TMX without one of the languages.
    """
    if not paths:
        raise InputError("no file was given; give one file of pairs, or a source file and a target file")
    for path in paths:
        check_file(path)
    counted = Counter() if skipped is None else skipped
    readers = [_reader(path) for path in paths]
    known = [reader for reader in readers if reader]
    if len(known) == len(paths):
        streams = zip(known, paths, strict=True)
        return chain.from_iterable(reader(path, source, target, counted) for reader, path in streams)
    if known:
        odd = paths[readers.index(None)]
        raise InputError(f"{odd} is plain text and cannot be read together with the other files; {_expected()}")
    if len(paths) != 2:
        given = "1 plain file" if len(paths) == 1 else f"{len(paths)} plain files"
        raise InputError(f"{given} given ({', '.join(map(str, paths))}); {_expected()}")
    return read_plain(paths[0], paths[1])


def languages(paths: Sequence[Path]) -> tuple[str | None, str | None]:
    """The source and target language as the names of two plain files tell them: train.en.gz -> "en"."""
    if len(paths) != 2 or any(_reader(path) for path in paths):
        return None, None
    return from_name(paths[0]), from_name(paths[1])


def _reader(path: Path) -> Reader | None:
    name = path.name.lower().removesuffix(".gz")
    return READERS.get(Path(name).suffix)


def _expected() -> str:
    return f"give two plain files (source, target), or files whose names end in {', '.join(READERS)}"
