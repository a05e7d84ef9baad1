"""Pairs of texts -> shards of ids on disk, opened as memory maps: memory stays flat however large the corpus is.

A pair goes to the shard that a hash of its source names. So each shard is a random sample of the corpus, and equal
pairs meet in one shard, where all but the first are dropped.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.drafts import LENGTH, Drafts
from qkv.errors import InputError
from qkv.files import replacing
from qkv.text.tokenizer import Tokenizer

VERSION = 1
INDEX = "index.json"
CHUNK = 4096  # pairs that are encoded together,
CHUNK_LETTERS = 2**20  # or fewer, when they are this long: an encoded letter takes some 100 bytes for a moment


@dataclass(frozen=True)
class Written:
    """What became of the pairs: kept, dropped as exact duplicates, left out as too long; and the tokens kept."""

    pairs: int
    duplicates: int
    too_long: int
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True)
class Shard:
    """The pairs of one shard: all ids in one row, source and target by turns, and where each begins."""

    ids: NDArray[Any]
    starts: NDArray[np.int64]  # (pairs, 2)
    lengths: NDArray[np.int64]  # (pairs, 2): source, target

    def __len__(self) -> int:
        return len(self.lengths)

    def source(self, row: int) -> NDArray[Any]:
        return self._ids(row, 0)

    def target(self, row: int) -> NDArray[Any]:
        return self._ids(row, 1)

    def _ids(self, row: int, side: int) -> NDArray[Any]:
        start = self.starts[row, side]
        return self.ids[start : start + self.lengths[row, side]]


def write_shards(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    tokenizer: Tokenizer,
    *,
    count: int,
    max_length: int,
    shard_pairs: int = 2**18,
    progress: Callable[[int], None] | None = None,
) -> Written:
    """Encode `pairs` into a new `folder` that appears whole or not at all.

    `count` is an upper bound of the number of pairs; `progress` is told how many have been read so far. A pair with
    more than `max_length` tokens on either side is left out and counted.
    """
    if max_length < 1 or shard_pairs < 1:
        raise InputError(f"max_length={max_length} and shard_pairs={shard_pairs} must be 1 or more")
    if folder.exists() and not (folder / INDEX).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and holds no shards, so it is not overwritten; name a new folder")
    with replacing(folder) as partial:
        partial.mkdir()
        drafts = Drafts(partial, max(1, math.ceil(count / shard_pairs)), _dtype(tokenizer))
        too_long = _encode(pairs, tokenizer, drafts, max_length, progress)
        drafts.flush()
        return _finish(partial, drafts, too_long, tokenizer.fingerprint)


class Corpus:
    """A folder of shards, opened to be read."""

    def __init__(self, folder: Path, index: dict[str, Any]) -> None:
        self.folder = folder
        self.written = Written(**index["written"])
        self._entries: list[dict[str, Any]] = index["shards"]
        self._dtype = np.dtype(index["dtype"])
        self._checked: set[int] = set()

    @classmethod
    def open(cls, folder: Path, fingerprint: str) -> "Corpus":
        """Open what `write_shards` wrote with the tokenizer of this fingerprint; sizes are checked now."""
        try:
            index = json.loads((folder / INDEX).read_bytes())
            version, owner = index["version"], index["tokenizer"]
            corpus = cls(folder, index)
        except FileNotFoundError:
            raise InputError(f"{folder} has no {INDEX}, so it is no folder of shards; prepare the data first") from None
        except (ValueError, KeyError, TypeError):
            raise _damaged(folder / INDEX) from None
        if version != VERSION:
            raise InputError(f"{folder} has format {version}, and this qkv reads {VERSION}; prepare the data again")
        if owner != fingerprint:
            raise InputError(f"{folder} was written with another tokenizer; prepare the data again with this one")
        for shard, entry in enumerate(corpus._entries):
            corpus._check_size(shard, "ids", entry["tokens"] * corpus._dtype.itemsize)
            corpus._check_size(shard, "lengths", entry["pairs"] * 2 * LENGTH.itemsize)
        return corpus

    def __len__(self) -> int:
        return self.written.pairs

    @property
    def shards(self) -> int:
        return len(self._entries)

    def lengths(self, shard: int) -> NDArray[np.int64]:
        """(pairs, 2): the number of source and target ids of each pair, without special tokens."""
        return self._map(shard, "lengths", LENGTH, self._entries[shard]["pairs"] * 2).reshape(-1, 2).astype(np.int64)

    def shard(self, shard: int) -> Shard:
        """One shard; its content is checked against the index the first time it is asked for."""
        if shard not in self._checked:
            for suffix in ("ids", "lengths"):
                path = self._path(shard, suffix)
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != self._entries[shard][suffix]:
                        raise _damaged(path)
            self._checked.add(shard)
        lengths = self.lengths(shard)
        ends = lengths.ravel().cumsum()
        ids = self._map(shard, "ids", self._dtype, self._entries[shard]["tokens"])
        return Shard(ids, ends.reshape(-1, 2) - lengths, lengths)

    def _path(self, shard: int, suffix: str) -> Path:
        return self.folder / f"{shard:05d}.{suffix}"

    def _map(self, shard: int, suffix: str, dtype: np.dtype[Any], items: int) -> NDArray[Any]:
        if items == 0:  # an empty file cannot be mapped
            return np.empty(0, dtype)
        return np.asarray(np.memmap(self._path(shard, suffix), dtype, "r"))

    def _check_size(self, shard: int, suffix: str, size: int) -> None:
        path = self._path(shard, suffix)
        if not path.exists() or path.stat().st_size != size:
            raise _damaged(path)


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    chunk: list[tuple[str, str]] = []
    letters = 0
    for source, target in pairs:
        chunk.append((source, target))
        letters += len(source) + len(target)
        if len(chunk) == CHUNK or letters > CHUNK_LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _encode(
    pairs: Iterable[tuple[str, str]],
    tokenizer: Tokenizer,
    drafts: Drafts,
    max_length: int,
    progress: Callable[[int], None] | None,
) -> int:
    """Send every pair that is short enough to its draft; the number of those that are not."""
    read = too_long = 0
    for chunk in _chunks(pairs):
        sources = tokenizer.encode_batch([source for source, _ in chunk])
        targets = tokenizer.encode_batch([target for _, target in chunk])
        for source, target in zip(sources, targets, strict=True):
            if max(len(source), len(target)) > max_length:
                too_long += 1
            else:
                drafts.add(np.array(source, drafts.dtype).tobytes(), np.array(target, drafts.dtype).tobytes())
        read += len(chunk)
        if progress:
            progress(read)
    return too_long


def _finish(folder: Path, drafts: Drafts, too_long: int, fingerprint: str) -> Written:
    entries, tokens, duplicates = [], np.zeros(2, np.int64), 0
    for shard in range(drafts.number):
        entry, kept_tokens, dropped = drafts.close(shard)
        entries.append(entry)
        tokens += kept_tokens
        duplicates += dropped
    kept = sum(entry["pairs"] for entry in entries)
    if kept == 0:
        raise InputError(f"no pair is left ({too_long} were too long); give some pairs or raise max_length")
    written = Written(kept, duplicates, too_long, int(tokens[0]), int(tokens[1]))
    index = {
        "version": VERSION,
        "tokenizer": fingerprint,
        "dtype": drafts.dtype.str,
        "written": asdict(written),
        "shards": entries,
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1))
    return written


def _dtype(tokenizer: Tokenizer) -> np.dtype[Any]:
    return np.dtype("<u2" if len(tokenizer) <= 2**16 else "<u4")


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged or missing; delete the folder {path.parent} and prepare the data again")
