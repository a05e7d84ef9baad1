"""Rows written to disk, in shards that each fit in memory.

Unless their order counts, a row goes to the shard that a hash of its first column names. So each shard is a random
sample of the corpus, and equal rows meet in one shard, where all but the first can be dropped.
"""

import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.data.rows import INDEX, LENGTH, VERSION, Ints, Row, Written, part
from qkv.errors import InputError
from qkv.files import digest, read_json, remove, replacing, write_json

CHUNK = 4096  # rows that are laid out together
PENDING = 2**25  # bytes of rows that wait in memory before they are written to their drafts
PLACE, KEY = 8, 16  # bytes of BLAKE2b; two of ten billion different rows share a key with a chance below 10^-18
NOTE = "written.json"  # what the drafts of a process that is gone are known to hold

Counts = dict[str, dict[str, int]]


class PackedRows(NamedTuple):
    """Some rows, laid out as they are written."""

    ids: NDArray[Any]  # of all rows behind each other, column by column
    lengths: NDArray[np.uint32]  # (rows, columns)
    marks: NDArray[np.uint8]  # (rows, PLACE + KEY): what names a row's shard, and what tells the row from others
    too_long: int = 0  # rows that were left out


def id_type(vocab_size: int) -> np.dtype[Any]:
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def pack(rows: Sequence[Row], dtype: np.dtype[Any], columns: int, longest: Sequence[int] = ()) -> PackedRows:
    """Lay rows out; one with more than longest[k] ids in column k is left out and counted."""
    kept = [row for row in rows if not longest or all(len(ids) <= n for ids, n in zip(row, longest, strict=True))]
    lengths = np.array([[len(ids) for ids in row] for row in kept], LENGTH).reshape(len(kept), columns)
    try:
        ids = np.array([*chain.from_iterable(chain.from_iterable(kept))], dtype)
    except OverflowError:
        most = np.iinfo(dtype).max
        raise InputError(f"an example has a number above {most:,}, which no row of ids holds; shorten it") from None
    content, begin, marks = ids.tobytes(), 0, bytearray()
    ends = lengths.ravel().cumsum(dtype=np.int64).reshape(lengths.shape) * dtype.itemsize
    for first, *others in ends.tolist():
        key = blake2b(content[begin:first], digest_size=KEY).digest()
        marks += key[:PLACE]
        begin = first
        for end in others:
            key = blake2b(content[begin:end], digest_size=KEY, key=key).digest()
            begin = end
        marks += key
    return PackedRows(ids, lengths, np.frombuffer(marks, np.uint8).reshape(-1, PLACE + KEY), len(rows) - len(kept))


class GoingOn(NamedTuple):
    """What makes it possible to take up the drafts of a process that was killed."""

    drafts: Path  # the folder to write them in
    key: str  # names all that the rows depend on
    counts: Callable[[], Mapping[str, Mapping[str, int]]]  # what was counted of them besides, so far


class Drafts:
    """Shards being filled: rows wait in memory for a while, then each goes to the end of its shard's draft.

    When they are to be taken up, a note beside them tells how much they are known to hold.
    """

    def __init__(
        self, folder: Path, number: int, dtype: np.dtype[Any], columns: int, *, unique: bool, going_on: GoingOn | None
    ) -> None:
        self.folder, self.number, self.dtype, self.columns, self.unique = folder, number, dtype, columns, unique
        self.going_on, self.counts = going_on, Counts()  # of chunks that another process has written
        self._waiting = defaultdict[Path, bytearray](bytearray)
        self._sizes: dict[str, int] = {}  # bytes of each draft
        self.note = {"chunks": 0, "rows": 0, "too_long": 0}
        if not (going_on and self.take_up(going_on.key)):
            remove(folder)
            folder.mkdir(parents=True)

    def take_up(self, own: str) -> bool:
        """Go on with what another process has left; what it wrote after its last note is cut off."""
        try:
            note = read_json(self.folder / NOTE)
            sizes, key, counts = note.pop("sizes"), note.pop("key"), note.pop("counts")
            if key != own or any((self.folder / name).stat().st_size < sizes[name] for name in sizes):
                return False
        except (InputError, OSError, ValueError, KeyError, TypeError):
            return False
        for path in self.folder.iterdir():
            if path.name in sizes:
                os.truncate(path, sizes[path.name])
            elif path.name != NOTE:
                path.unlink()
        self.note, self._sizes, self.counts = note, sizes, counts
        return True

    @property
    def read(self) -> int:
        """Rows that came so far, those that were too long among them."""
        return self.note["rows"] + self.note["too_long"]

    def add(self, packed: PackedRows) -> None:
        shards = np.ascontiguousarray(packed.marks[:, :PLACE]).view("<u8").ravel() % self.number
        sizes = packed.lengths.sum(1, dtype=np.int64)
        for shard in np.unique(shards).tolist():
            mine = shards == shard
            parts = {"ids": packed.ids[np.repeat(mine, sizes)], "lengths": packed.lengths[mine]}
            if self.unique:
                parts["keys"] = packed.marks[mine, PLACE:]
            for suffix, content in parts.items():
                self._waiting[part(self.folder, shard, suffix)] += content.tobytes()
        self.note["chunks"] += 1
        self.note["rows"] += len(sizes)
        self.note["too_long"] += packed.too_long
        if sum(map(len, self._waiting.values())) > PENDING:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Files are opened for the moment only: a corpus may have more shards than open files."""
        for path, content in self._waiting.items():
            with path.open("ab") as file:
                file.write(content)
                self._sizes[path.name] = file.tell()
        self._waiting.clear()
        if self.going_on:
            also = {"key": self.going_on.key, "counts": self.going_on.counts(), "sizes": self._sizes}
            write_json(self.folder / NOTE, {**self.note, **also})

    def close(self) -> list[tuple[dict[str, Any], Ints, int]]:
        """The shards in their final form."""
        self.flush()
        remove(self.folder / NOTE)
        return [self.closed(shard) for shard in range(self.number)]

    def closed(self, shard: int) -> tuple[dict[str, Any], Ints, int]:
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
    if longest and min(longest) < 1:
        raise InputError(f"longest={list(longest)} must be 1 or more")
    left = iter(rows)
    chunks = iter(lambda: [*islice(left, CHUNK)], [])
    return write_packed(
        folder, lambda *_: (pack(chunk, id_type(vocab_size), columns, longest) for chunk in chunks), columns=columns,
        vocab_size=vocab_size, fingerprint=fingerprint, count=count, unique=unique, in_order=in_order,
        shard_rows=shard_rows, progress=progress,
    )  # fmt: skip


def write_packed(
    folder: Path, chunks: Callable[[int, Counts], Iterator[PackedRows]], *, columns: int, vocab_size: int,
    fingerprint: str, count: int, unique: bool = False, in_order: bool = False, shard_rows: int = 2**18,
    progress: Callable[[int], None] | None = None, going_on: GoingOn | None = None,
) -> Written:  # fmt: skip
    """The same, of rows that are laid out: `chunks` gives those behind the first so many chunks, of which so much was
    counted; 0, unless what a killed process has written is taken up."""
    if shard_rows < 1:
        raise InputError(f"shard_rows={shard_rows} must be 1 or more")
    if folder.exists() and not (folder / INDEX).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and holds no rows, so it is not overwritten; name a new folder")
    number = 1 if in_order else max(1, math.ceil(count / shard_rows))
    with replacing(folder) as partial:
        dtype, place = id_type(vocab_size), going_on.drafts if going_on else partial
        filling = Drafts(place, number, dtype, columns, unique=unique, going_on=going_on)
        for packed in chunks(filling.note["chunks"], filling.counts):
            filling.add(packed)
            if progress:
                progress(filling.read)
        entries, tokens, dropped = zip(*filling.close(), strict=True)
        too_long = filling.note["too_long"]
        kept = sum(entry["rows"] for entry in entries)
        written = Written(kept, sum(dropped), too_long, np.sum(tokens, axis=0).tolist())
        if not written.rows:
            raise InputError(f"no example is left ({too_long} were too long); give some, or raise data.max_length")
        index = {"version": VERSION, "tokenizer": fingerprint, "dtype": dtype.str, "written": asdict(written)}
        (place / INDEX).write_text(json.dumps({**index, "shards": entries}, indent=1))
        if place != partial:
            place.rename(partial)
    return written
