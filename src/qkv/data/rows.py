"""Rows of ids on disk, opened as memory maps: memory stays flat however large a corpus is.

A row has one column (a text), two (a pair) or more (ids, their words, their labels): Row = tuple[Sequence[int], ...].
Unless their order counts, a row goes to the shard that a hash of its first column names. So each shard is a random
sample of the corpus, and equal rows meet in one shard, where all but the first can be dropped.
"""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.files import digest, read_json, replacing

VERSION = 2
INDEX = "index.json"
LENGTH = np.dtype("<u4")
PENDING = 2**25  # bytes of rows that wait in memory before they are written to their drafts
KEY = 16  # bytes of BLAKE2b: two of ten billion different rows share one with a chance below 10^-18

Row = Sequence[Sequence[int]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Written:
    """What became of the rows: kept, dropped as exact duplicates, left out as too long; and the tokens kept."""

    rows: int
    duplicates: int
    too_long: int
    tokens: list[int]  # of each column


@dataclass(frozen=True)
class Shard:
    """Some rows: all their ids behind each other, column by column, and where each begins."""

    ids: NDArray[Any]
    starts: Ints  # (rows, columns)
    lengths: Ints  # (rows, columns)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> list[list[int]]:
        spans = zip(self.starts[row], self.lengths[row], strict=True)
        return [self.ids[start : start + length].tolist() for start, length in spans]


class Rows(Protocol):
    """Rows that can be read in any order, in shards that each fit in memory."""

    @property
    def shards(self) -> int: ...
    def __len__(self) -> int: ...
    def lengths(self, shard: int) -> Ints: ...
    def shard(self, shard: int) -> Shard: ...


class RowsInMemory:
    """A few rows as one shard: what is scored or counted without a folder."""

    shards = 1

    def __init__(self, rows: Sequence[Row]) -> None:
        if not rows:
            raise InputError("there is no example to make batches of; give files that hold some")
        lengths = np.array([[len(column) for column in row] for row in rows], np.int64)
        self._shard = laid_out(np.array([*chain.from_iterable(chain.from_iterable(rows))], np.int64), lengths)

    def __len__(self) -> int:
        return len(self._shard)

    def lengths(self, shard: int) -> Ints:
        return self._shard.lengths

    def shard(self, shard: int) -> Shard:
        return self._shard


def laid_out(ids: NDArray[Any], lengths: Ints) -> Shard:
    return Shard(ids, lengths.ravel().cumsum().reshape(lengths.shape) - lengths, lengths)


class Drafts:
    """Shards being filled: rows wait in memory for a while, then each goes to the end of its shard's draft."""

    def __init__(self, folder: Path, number: int, dtype: np.dtype[Any], columns: int, *, unique: bool) -> None:
        self.folder, self.number, self.dtype, self.columns, self.unique = folder, number, dtype, columns, unique
        self._waiting = defaultdict[tuple[int, str], bytearray](bytearray)
        self._bytes = 0

    def add(self, row: Row) -> None:
        try:
            columns = [np.array(ids, self.dtype).tobytes() for ids in row]
        except OverflowError:
            most = np.iinfo(self.dtype).max
            raise InputError(f"an example has a number above {most:,}, which no row of ids holds; shorten it") from None
        key = hashlib.blake2b(columns[0], digest_size=KEY).digest()
        shard = int.from_bytes(key[:8], "little") % self.number
        for column in columns[1:]:
            key = hashlib.blake2b(column, digest_size=KEY, key=key).digest()
        lengths = np.array([len(column) for column in columns], LENGTH) // self.dtype.itemsize
        parts = {"ids": b"".join(columns), "lengths": lengths.tobytes(), **({"keys": key} if self.unique else {})}
        for suffix, content in parts.items():
            self._waiting[shard, suffix] += content
            self._bytes += len(content)
        if self._bytes > PENDING:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Files are opened for the moment only: a corpus may have more shards than open files."""
        for (shard, suffix), content in self._waiting.items():
            with part(self.folder, shard, suffix).open("ab") as file:
                file.write(content)
        self._waiting.clear()
        self._bytes = 0

    def close(self, shard: int) -> tuple[dict[str, Any], Ints, int]:
        """A shard in its final form: its index entry, the ids in each column, and the duplicates that were dropped."""
        paths = {suffix: part(self.folder, shard, suffix) for suffix in ("lengths", "ids", "keys")}
        for path in paths.values():
            path.touch()
        lengths = np.fromfile(paths["lengths"], LENGTH).reshape(-1, self.columns)
        dropped = 0
        if self.unique:
            keys = np.fromfile(paths["keys"], np.dtype((np.void, KEY)))
            first = np.zeros(len(keys), bool)
            first[np.unique(keys, return_index=True)[1]] = True
            if dropped := len(first) - int(first.sum()):
                ids = np.fromfile(paths["ids"], self.dtype)[np.repeat(first, lengths.sum(1, dtype=np.int64))]
                lengths = lengths[first]
                paths["ids"].write_bytes(ids.tobytes())
                paths["lengths"].write_bytes(lengths.tobytes())
        paths["keys"].unlink()
        tokens = lengths.sum(0, dtype=np.int64)
        digests = {suffix: digest(paths[suffix]) for suffix in ("ids", "lengths")}
        return {"rows": len(lengths), "tokens": int(tokens.sum()), **digests}, tokens, dropped


def part(folder: Path, shard: int, suffix: str) -> Path:
    return folder / f"{shard:05d}.{suffix}"


def write_rows(
    folder: Path, rows: Iterable[Row], *, columns: int, vocab_size: int, fingerprint: str, count: int,
    longest: Sequence[int] = (), unique: bool = False, in_order: bool = False, shard_rows: int = 2**18,
    progress: Callable[[int], None] | None = None,
) -> Written:  # fmt: skip
    """Write rows into a new `folder` that appears whole or not at all; `fingerprint` is that of their tokenizer.

    `count` is an upper bound of their number; `progress` is told how many have been read so far. A row with more than
    longest[k] ids in column k is left out and counted. `unique` drops rows that repeat another one exactly. With
    `in_order` one shard holds the rows as they came: running text.
    """
    if shard_rows < 1 or (longest and min(longest) < 1):
        raise InputError(f"longest={list(longest)} and shard_rows={shard_rows} must be 1 or more")
    if folder.exists() and not (folder / INDEX).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and holds no rows, so it is not overwritten; name a new folder")
    with replacing(folder) as partial:
        partial.mkdir()
        dtype = np.dtype("<u2" if vocab_size <= 2**16 else "<u4")
        number = 1 if in_order else max(1, math.ceil(count / shard_rows))
        drafts = Drafts(partial, number, dtype, columns, unique=unique)
        too_long = 0
        for read, row in enumerate(rows, start=1):
            if longest and any(len(ids) > most for ids, most in zip(row, longest, strict=True)):
                too_long += 1
            else:
                drafts.add(row)
            if progress and read % 1000 == 0:
                progress(read)
        drafts.flush()
        entries, tokens, dropped = zip(*map(drafts.close, range(number)), strict=True)
        kept = sum(entry["rows"] for entry in entries)
        written = Written(kept, sum(dropped), too_long, np.sum(tokens, axis=0).tolist())
        if not written.rows:
            raise InputError(f"no example is left ({too_long} were too long); give some, or raise data.max_length")
        index = {"version": VERSION, "tokenizer": fingerprint, "dtype": dtype.str, "written": asdict(written)}
        (partial / INDEX).write_text(json.dumps({**index, "shards": entries}, indent=1))
    return written


class RowsOnDisk:
    """A folder that `write_rows` wrote, opened to be read."""

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        self.folder = folder
        self.written = Written(**index["written"])
        self.columns = len(self.written.tokens)
        self._entries: list[dict[str, Any]] = index["shards"]
        self._dtype = np.dtype(index["dtype"])
        self._checked: set[int] = set()

    @classmethod
    def open(cls, folder: Path, fingerprint: str) -> "RowsOnDisk":
        """Open what was written with the tokenizer of this fingerprint; sizes are checked now."""
        try:
            index = read_json(folder / INDEX)
            version, owner = index["version"], index["tokenizer"]
            if version != VERSION:
                raise InputError(f"{folder} has format {version}, and this qkv reads {VERSION}; prepare the data again")
            if owner != fingerprint:
                raise InputError(f"{folder} was written with another tokenizer; prepare the data again with this one")
            rows = cls(folder, index)
            for shard in range(rows.shards):
                rows._map(shard, "ids")
                rows._map(shard, "lengths")
            return rows
        except FileNotFoundError:
            raise InputError(f"{folder} has no {INDEX}, so it is no folder of rows; prepare the data first") from None
        except (ValueError, KeyError, TypeError) as error:
            raise error if isinstance(error, InputError) else _damaged(folder / INDEX) from None

    def __len__(self) -> int:
        return self.written.rows

    @property
    def shards(self) -> int:
        return len(self._entries)

    def lengths(self, shard: int) -> Ints:
        """(rows, columns): the number of ids in each column of each row."""
        return self._map(shard, "lengths").reshape(-1, self.columns).astype(np.int64)

    def shard(self, shard: int) -> Shard:
        """One shard; its content is checked against the index the first time it is asked for."""
        if shard not in self._checked:
            for suffix in ("ids", "lengths"):
                path = part(self.folder, shard, suffix)
                if digest(path) != self._entries[shard][suffix]:
                    raise _damaged(path)
            self._checked.add(shard)
        return laid_out(self._map(shard, "ids"), self.lengths(shard))

    def _map(self, shard: int, suffix: str) -> NDArray[Any]:
        """A file, which must have the size that the index says; an empty one cannot be mapped."""
        entry, path = self._entries[shard], part(self.folder, shard, suffix)
        dtype, items = (self._dtype, entry["tokens"]) if suffix == "ids" else (LENGTH, entry["rows"] * self.columns)
        if not path.exists() or path.stat().st_size != items * dtype.itemsize:
            raise _damaged(path)
        return np.asarray(np.memmap(path, dtype, "r")) if items else np.empty(0, dtype)


def each_row(rows: Rows) -> Iterator[list[list[int]]]:
    """All rows, shard by shard."""
    for shard in map(rows.shard, range(rows.shards)):
        yield from (shard[row] for row in range(len(shard)))


class RunningText:
    """The first column of all rows as one long text: text[start:stop] across the borders of rows and shards."""

    def __init__(self, rows: Rows) -> None:
        self._ids = [rows.shard(shard).ids for shard in range(rows.shards)]
        self._starts = [0, *accumulate(map(len, self._ids))]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, span: slice) -> Ints:
        pieces = [
            ids[max(span.start - start, 0) : max(span.stop - start, 0)]
            for ids, start in zip(self._ids, self._starts[:-1], strict=True)
        ]
        return np.concatenate(pieces).astype(np.int64)


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged or missing; delete the folder {path.parent} and prepare the data again")
