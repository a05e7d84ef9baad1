"""What is asked of the native engine, and what it answers, as C++ lays it out."""

import ctypes
from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from qkv.errors import InputError

if TYPE_CHECKING:  # numpy takes as long to import as all else of a short translation, which needs none
    import numpy as np
    from numpy.typing import NDArray

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

    rows: "array[int]"  # (n,), rising
    tokens: "array[int]"  # (n,)
    done: dict[int, tuple[list[int], float]]


def lengths_of(texts: Texts) -> "array[int]":
    return array("i", map(len, texts))


def joined(texts: Texts) -> "array[int]":
    """One behind the other."""
    return array("i", chain.from_iterable(texts))


def room(kind: str, count: int) -> "array[Any]":
    """Zeros, of four bytes each."""
    return array(kind, bytes(4 * count))


def pointers(arrays: "dict[str, array[Any]]") -> dict[str, int]:
    """Where they are, which is so until they grow."""
    return {name: one.buffer_info()[0] for name, one in arrays.items()}


class NativeAsked:
    """A search, and the room for what it finds; `struct` points to all of it."""

    def __init__(
        self, sources: Texts, limits: Sequence[int], *, first: int, end: int, never: Sequence[int],
        prefix: Sequence[int] = (), lists: Texts | None = None, numbers: "NDArray[np.float64] | None" = None,
        threads: int = 1, beam: int = 1, samples: int = 0, **rules: Any,
    ) -> None:  # fmt: skip
        """`first` is what a translation begins with, before the `prefix` that is given; `never` are what no text holds,
        `lists` what each may hold, rising, its end among it; with `samples`, so many texts of each are drawn by
        `numbers` (n, samples, limit). The other rules are those of native/search.h."""
        count = len(sources)
        self.width, self.each = max(0, *limits), max(0, samples or 2 * beam)  # what is less is refused
        given: dict[str, array[Any]] = {
            "lengths": lengths_of(sources), "ids": joined(sources), "limits": array("i", limits),
            "never": array("i", never), "prefix": array("i", prefix),
        }  # fmt: skip
        if lists is not None:
            if len(lists) != count:
                raise InputError(f"there are {count} sentences and {len(lists)} lists; give as many")
            given |= {"listed": joined(lists), "listed_starts": array("q", accumulate(map(len, lists), initial=0))}
        if samples and (numbers is None or numbers.shape != (count, samples, self.width)):
            shape = (0,) if numbers is None else numbers.shape
            raise InputError(f"numbers {shape} are not ({count}, {samples}, {self.width})")
        self.counts, self.sizes = room("i", count), room("i", count * self.each)
        self.texts, self.log_p = room("i", count * self.each * self.width), room("f", count * self.each)
        out = {"counts": self.counts, "sizes": self.sizes, "texts": self.texts, "log_p": self.log_p}
        self.numbers = None if numbers is None else numbers.astype("float64", order="C", copy=False)
        self.held = given | out  # for as long as it is pointed to
        self.struct = NativeSearch(
            sentences=count, beam=beam, samples=samples, threads=threads, never_count=len(never), first=first, end=end,
            prefix_count=len(prefix), tokens=len(given["ids"]), width=self.width, each=self.each,
            numbers=None if self.numbers is None else self.numbers.ctypes.data, **pointers(self.held), **rules,
        )  # fmt: skip

    def text(self, row: int) -> list[int]:
        begin = row * self.width
        return self.texts[begin : begin + self.sizes[row]].tolist()

    def found(self) -> list[NativeFound]:
        several = [range(i * self.each, i * self.each + count) for i, count in enumerate(self.counts)]
        return [NativeFound([self.text(row) for row in some], [self.log_p[row] for row in some]) for some in several]

    def ended(self, rows: Sequence[int]) -> dict[int, tuple[list[int], float]]:
        """Which of these texts of a stream are over: their tokens, and their log p."""
        samples = max(1, self.struct.samples)
        places = [(row, row // samples * self.each + row % samples) for row in rows]
        return {row: (self.text(at), self.log_p[at]) for row, at in places if self.sizes[at]}
