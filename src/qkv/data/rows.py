"""Rows of ids on disk, opened as memory maps, running text read as it is asked for: memory stays flat.

A row has one column (a text), two (a pair) or more (ids, their words, their labels): Row = tuple[Sequence[int], ...].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.files import digest, read_json

VERSION = 2
INDEX = "index.json"
LENGTH = np.dtype("<u4")

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
    def ids(self, shard: int) -> "AllIds": ...


class AllIds(Protocol):
    """The ids of a shard behind each other, of which parts are asked for: ids[start:stop]."""

    def __len__(self) -> int: ...
    def __getitem__(self, span: slice, /) -> NDArray[Any]: ...


class IdsOnDisk:
    """Read when they are asked for: of a mapped file, all that was ever looked at counts as this process's memory."""

    def __init__(self, path: Path, dtype: np.dtype[Any], length: int) -> None:
        self.path, self.dtype, self.length = path, dtype, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, span: slice, /) -> NDArray[Any]:
        start, stop, _ = span.indices(self.length)
        if (size := (stop - start) * self.dtype.itemsize) <= 0:
            return np.empty(0, self.dtype)
        try:
            with self.path.open("rb", buffering=0) as file:  # np.fromfile takes twice as long
                file.seek(start * self.dtype.itemsize)
                content = file.read(size)
        except FileNotFoundError:
            raise _damaged(self.path) from None
        if len(content) != size:
            raise _damaged(self.path)
        return np.frombuffer(content, self.dtype)


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

    def ids(self, shard: int) -> AllIds:
        return self._shard.ids


def laid_out(ids: NDArray[Any], lengths: Ints) -> Shard:
    return Shard(ids, lengths.ravel().cumsum().reshape(lengths.shape) - lengths, lengths)


def part(folder: Path, shard: int, suffix: str) -> Path:
    return folder / f"{shard:05d}.{suffix}"


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
        self._check(shard)
        return laid_out(self._map(shard, "ids"), self.lengths(shard))

    def ids(self, shard: int) -> AllIds:
        self._check(shard)
        return IdsOnDisk(part(self.folder, shard, "ids"), self._dtype, self._entries[shard]["tokens"])

    def _check(self, shard: int) -> None:
        if shard not in self._checked:
            for suffix in ("ids", "lengths"):
                path = part(self.folder, shard, suffix)
                if digest(path) != self._entries[shard][suffix]:
                    raise _damaged(path)
            self._checked.add(shard)

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
        self._ids = [rows.ids(shard) for shard in range(rows.shards)]
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
