"""Shards being filled: each row is appended to a draft, and a draft without its duplicates becomes a shard."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.files import digest

PENDING = 2**25  # bytes of rows that wait in memory before they are written to their drafts
RECORD = 200  # bytes that Python adds to the ids of one waiting row, about
LENGTH = np.dtype("<u4")
KEY = 16  # bytes of BLAKE2b: two of ten billion different rows share one with a chance below 10^-18


class Drafts:
    """Shards being filled: rows wait in memory for a while, then each goes to the end of its shard's draft."""

    def __init__(self, folder: Path, number: int, dtype: np.dtype[Any], columns: int, *, unique: bool) -> None:
        self.folder, self.number, self.dtype, self.columns, self.unique = folder, number, dtype, columns, unique
        self._waiting: dict[int, list[tuple[bytes, bytes, bytes]]] = defaultdict(list)  # key, lengths, ids
        self._bytes = 0

    def add(self, row: Sequence[Sequence[int]]) -> None:
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
        self._waiting[shard].append((key, lengths.tobytes(), b"".join(columns)))
        self._bytes += sum(map(len, columns)) + RECORD
        if self._bytes > PENDING:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Files are opened for the moment only: a corpus may have more shards than open files."""
        for shard, waiting in self._waiting.items():
            for suffix, content in zip(("keys", "lengths", "ids"), zip(*waiting, strict=True), strict=True):
                if suffix != "keys" or self.unique:
                    with (self.folder / f"{shard:05d}.{suffix}").open("ab") as file:
                        file.write(b"".join(content))
        self._waiting.clear()
        self._bytes = 0

    def close(self, shard: int) -> tuple[dict[str, Any], NDArray[np.int64], int]:
        """A shard in its final form: its index entry, the ids in each column, and the duplicates that were dropped."""
        paths = {suffix: self.folder / f"{shard:05d}.{suffix}" for suffix in ("lengths", "ids", "keys")}
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
