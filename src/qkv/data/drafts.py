"""Shards being filled: each pair is appended to a draft, and a draft without its duplicates becomes a shard."""

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PENDING = 2**25  # bytes of pairs that wait in memory before they are written to their drafts
RECORD = 200  # bytes that Python adds to the ids of one waiting pair, about
LENGTH = np.dtype("<u4")
DIGEST = 16  # bytes of BLAKE2b: two of ten billion different pairs share one with a chance below 10^-18


class Drafts:
    """Shards being filled: pairs wait in memory for a while, then each goes to the end of its shard's draft."""

    def __init__(self, folder: Path, number: int, dtype: np.dtype[Any]) -> None:
        self.folder, self.number, self.dtype = folder, number, dtype
        self._waiting: dict[int, list[bytes]] = defaultdict(list)
        self._bytes = 0

    def add(self, source: bytes, target: bytes) -> None:
        key = hashlib.blake2b(source, digest_size=DIGEST).digest()
        both = hashlib.blake2b(target, digest_size=DIGEST, key=key).digest()
        lengths = np.array([len(source), len(target)], LENGTH) // self.dtype.itemsize
        self._waiting[int.from_bytes(key[:8], "little") % self.number] += [both, lengths.tobytes(), source + target]
        self._bytes += len(source) + len(target) + RECORD
        if self._bytes > PENDING:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Files are opened for the moment only: a corpus may have more shards than open files."""
        for shard, waiting in self._waiting.items():
            for part, suffix in enumerate(("digests", "lengths", "ids")):
                with (self.folder / f"{shard:05d}.{suffix}").open("ab") as file:
                    file.write(b"".join(waiting[part::3]))
        self._waiting.clear()
        self._bytes = 0

    def close(self, shard: int) -> tuple[dict[str, Any], NDArray[np.int64], int]:
        """Drop the duplicates of one shard, write it in its final form; its index entry, lengths and duplicates."""
        paths = {suffix: self.folder / f"{shard:05d}.{suffix}" for suffix in ("digests", "lengths", "ids")}
        for path in paths.values():
            path.touch()
        digests = np.fromfile(paths["digests"], np.dtype((np.void, DIGEST)))
        lengths = np.fromfile(paths["lengths"], LENGTH).reshape(-1, 2)
        ids = np.fromfile(paths["ids"], self.dtype)
        first = np.zeros(len(digests), bool)
        first[np.unique(digests, return_index=True)[1]] = True
        ids = ids[np.repeat(first, lengths.sum(1, dtype=np.int64))]
        kept = lengths[first]
        entry = {
            "pairs": len(kept),
            "tokens": len(ids),
            "ids": write(paths["ids"], ids.tobytes()),
            "lengths": write(paths["lengths"], kept.tobytes()),
        }
        paths["digests"].unlink()
        return entry, kept.sum(0, dtype=np.int64), len(first) - len(kept)


def write(path: Path, content: bytes) -> str:
    """The SHA-256 of the content, once it is written."""
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()
