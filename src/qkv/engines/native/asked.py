"""What is asked of the native engine, and what it answers, as C++ lays it out."""

import ctypes
from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
Texts = Sequence[Sequence[int]]  # the ids of each


class NativeSearch(ctypes.Structure):
    """What is asked of a search, and where its answer goes: struct Asked of native/search.h."""

    _fields_: ClassVar = [
        *((name, ctypes.c_int32) for name in ("sentences", "beam", "samples", "no_repeat", "ends", "top_k", "threads")),
        *((name, ctypes.c_int32) for name in ("never_count", "at_least", "prefix_count", "first", "end")),
        *((name, ctypes.c_float) for name in ("temperature", "top_p")),
        *((name, ctypes.c_void_p) for name in ("lengths", "ids", "limits", "never", "prefix")),
        *((name, ctypes.c_void_p) for name in ("listed", "listed_starts", "numbers")),
        *((name, ctypes.c_int64) for name in ("tokens", "width", "each")),
        *((name, ctypes.c_void_p) for name in ("counts", "sizes", "texts", "log_p")),
    ]


class NativeLook(ctypes.Structure):
    """Where a decoder looks: struct Looked of native/attention.h."""

    _fields_: ClassVar = [
        *((name, ctypes.c_int32) for name in ("pairs", "layer", "threads")),
        *((name, ctypes.c_void_p) for name in ("source_lengths", "target_lengths", "sources", "targets")),
        *((name, ctypes.c_int64) for name in ("source_tokens", "target_tokens")),
        ("weights", ctypes.c_void_p),
    ]


class NativeFound(NamedTuple):
    """Of one sentence: texts in the order in which they ended, each with its end if it has one, and their log p."""

    texts: list[list[int]]
    log_p: list[float]


class NativeStep(NamedTuple):
    """The next token of each text that goes on, by its number; and those that it ends, with their log p."""

    rows: Ids  # (n,), rising
    tokens: Ids  # (n,)
    done: dict[int, tuple[list[int], float]]


def lengths_of(texts: Texts) -> Ids:
    return np.array([len(ids) for ids in texts], np.int32)


def joined(texts: Texts) -> Ids:
    """One behind the other."""
    return np.fromiter(chain.from_iterable(texts), np.int32)


class NativeAsked:
    """A search, and the room for what it finds; `struct` points to all of it."""

    def __init__(
        self, sources: Texts, limits: Sequence[int], *, first: int, end: int, never: Sequence[int],
        prefix: Sequence[int] = (), lists: Texts | None = None, numbers: NDArray[np.float64] | None = None,
        threads: int = 1, beam: int = 1, samples: int = 0, **rules: Any,
    ) -> None:  # fmt: skip
        """`first` is what a translation begins with, before the `prefix` that is given; `never` are what no text holds,
        `lists` what each may hold, rising, its end among it; with `samples`, so many texts of each are drawn by
        `numbers` (n, samples, limit). The other rules are those of native/search.h."""
        count, width, each = len(sources), max(0, *limits), max(0, samples or 2 * beam)  # what is less is refused
        given: dict[str, NDArray[Any]] = {
            "lengths": lengths_of(sources), "ids": joined(sources), "limits": np.array(limits, np.int32),
            "never": np.array(never, np.int32), "prefix": np.array(prefix, np.int32),
            "numbers": np.ascontiguousarray(np.zeros(0) if numbers is None else numbers, np.float64),
        }  # fmt: skip
        if lists is not None:
            if len(lists) != count:
                raise InputError(f"there are {count} sentences and {len(lists)} lists; give as many")
            given |= {"listed": joined(lists), "listed_starts": np.cumsum([0, *map(len, lists)], dtype=np.int64)}
        if samples and given["numbers"].shape != (count, samples, width):
            raise InputError(f"numbers {given['numbers'].shape} are not ({count}, {samples}, {width})")
        self.counts, self.sizes = np.zeros(count, np.int32), np.zeros((count, each), np.int32)
        self.texts, self.log_p = np.empty((count, each, width), np.int32), np.zeros((count, each), np.float32)
        out = {"counts": self.counts, "sizes": self.sizes, "texts": self.texts, "log_p": self.log_p}
        self.held = given | out  # for as long as it is pointed to
        self.struct = NativeSearch(
            sentences=count, beam=beam, samples=samples, threads=threads, never_count=len(never), first=first, end=end,
            prefix_count=len(prefix), tokens=len(given["ids"]), width=width, each=each,
            **{name: array.ctypes.data for name, array in self.held.items()}, **rules,
        )  # fmt: skip

    def found(self) -> list[NativeFound]:
        sizes = [row[:number] for row, number in zip(self.sizes.tolist(), self.counts.tolist(), strict=True)]
        return [
            NativeFound([texts[i, :size].tolist() for i, size in enumerate(some)], log_p[: len(some)].tolist())
            for some, texts, log_p in zip(sizes, self.texts, self.log_p, strict=True)
        ]

    def ended(self, rows: Ids) -> dict[int, tuple[list[int], float]]:
        """Which of these texts of a stream are over: their tokens, and their log p."""
        samples = max(1, self.struct.samples)
        places = [(row, *divmod(row, samples)) for row in rows.tolist()]
        return {
            row: (self.texts[i, s, :size].tolist(), float(self.log_p[i, s]))
            for row, i, s in places if (size := self.sizes[i, s])
        }  # fmt: skip
