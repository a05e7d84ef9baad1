"""The native engine as Python sees it: a library of a few functions, opened by ctypes, which releases the lock."""

import ctypes
import os
import weakref
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qkv.engines.native.asked import (
    NativeAsked,
    NativeFound,
    NativeLook,
    NativeSearch,
    NativeStep,
    joined,
    lengths_of,
    pointers,
    room,
)
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.engines.native.asked import Floats, Ids

LIBRARY = os.environ.get("QKV_NATIVE") or str(Path(__file__).parent / "lib" / "engine.so")  # native/build.py makes it
HELD = "QKV_CPU"  # an environment variable: avx512, avx2 or plain, the fastest path that may be taken
POOLS = ("states", "mean", "first", "last")
ERROR = 512  # bytes of a sentence
NOT_BUILT = "the native engine is not built here (it needs a C++ compiler when qkv is installed)"
How = Literal["states", "mean", "first", "last"]


@cache
def library() -> Any:
    """The library, or None where it was not built (there was no compiler), or for another machine, or before."""
    try:
        return declared(ctypes.CDLL(LIBRARY))
    except (OSError, AttributeError):
        return None


def declared(found: Any) -> Any:
    """With the types of its functions."""
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    found.qkv_open.restype = pointer
    found.qkv_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, pointer, size]
    found.qkv_close.restype = None
    found.qkv_close.argtypes = [pointer]
    found.qkv_path.restype = ctypes.c_char_p
    found.qkv_path.argtypes = [ctypes.c_char_p, pointer, size]
    found.qkv_sizes.restype = None
    found.qkv_sizes.argtypes = [pointer, pointer]
    found.qkv_read.argtypes = [pointer, ctypes.c_int32, ctypes.c_int64, *[pointer] * 3, *[ctypes.c_int32] * 2, pointer]
    found.qkv_read.argtypes += [pointer, size]
    found.qkv_search.argtypes = [pointer, ctypes.POINTER(NativeSearch), pointer, size]
    found.qkv_begin.restype = pointer
    found.qkv_begin.argtypes = found.qkv_search.argtypes
    found.qkv_next.argtypes = [*[pointer] * 4, size]
    found.qkv_end.restype = None
    found.qkv_end.argtypes = [pointer]
    found.qkv_attend.argtypes = [pointer, ctypes.POINTER(NativeLook), pointer, size]
    found.qkv_multiply.restype = ctypes.c_int64
    found.qkv_multiply.argtypes = [ctypes.c_char_p, ctypes.c_int32, pointer, size]
    return found


def is_built() -> bool:
    return library() is not None


def held() -> bytes:
    return os.environ.get(HELD, "").encode()


def processor() -> str:
    """The path that is taken here: avx512, avx2, or plain, which any processor has."""
    error = ctypes.create_string_buffer(ERROR)
    found: bytes | None = library().qkv_path(held(), error, ERROR)
    if found is None:
        raise InputError(f"{HELD}: {error.value.decode(errors='replace')}")
    return found.decode()


def multiply(rounds: int) -> int:
    """Operations of so many rounds of 8-bit products that wait for no memory: what benchmarks take for the ceiling."""
    error = ctypes.create_string_buffer(ERROR)
    return int(library().qkv_multiply(held(), rounds, error, ERROR))


class Native:
    """A model file that is open. Several threads may read at once; each call may have threads of its own."""

    def __init__(self, path: Path, name: str = "") -> None:
        """`name` is what errors call it, if not by its path."""
        self.path, self.name = path, name or path.name
        if not is_built():
            raise InputError(f"{NOT_BUILT}; install one and qkv again, or use another engine")
        error = ctypes.create_string_buffer(ERROR)
        self.processor = processor()
        self.handle = library().qkv_open(os.fsencode(path), held(), error, ERROR)
        if not self.handle:
            raise InputError(f"{name or path} cannot be used: {error.value.decode(errors='replace')}")
        sizes = room("i", 5)
        library().qkv_sizes(self.handle, sizes.buffer_info()[0])
        # D of a vector; tokens of a text at most; heads; layers of a decoder that look at a source; bits of a weight
        self.width, self.places, self.heads, self.memory_layers, self.bits = sizes
        self.close = weakref.finalize(self, library().qkv_close, self.handle)

    def read(
        self, lengths: "Ids", ids: "Ids", segments: "Ids | None" = None, *, pool: How = "states", threads: int = 1
    ) -> "Floats":  # fmt: skip
        """Sentences of these lengths (n,), whose ids and segments (N,) stand one behind the other -> states (N, D), or
        of each sentence (n, D) their mean, the first or the last."""
        import numpy as np

        given = (lengths, ids) if segments is None else (lengths, ids, segments)
        arrays = [np.ascontiguousarray(one, np.int32) for one in given]
        if len(arrays[-1]) != len(ids):
            raise InputError(f"there are {len(ids)} ids and {len(arrays[-1])} segments; give as many")
        out = np.empty((len(ids) if pool == "states" else len(lengths), self.width), np.float32)
        error = ctypes.create_string_buffer(ERROR)
        pointers = [one.ctypes.data for one in arrays] + [None] * (3 - len(arrays))
        failed = library().qkv_read(
            self.handle, len(lengths), len(ids), *pointers, POOLS.index(pool), threads, out.ctypes.data, error, ERROR
        )
        if failed:
            raise InputError(f"{self.name} cannot read this: {error.value.decode(errors='replace')}")
        return out

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], *, samples: int = 0, beam: int = 1, **how: Any
    ) -> list[NativeFound]:
        """Sources as the encoder reads them, or prompts; at most limits[i] tokens of each text. `how` is that of
        `NativeAsked`: with `samples`, so many texts of each are drawn."""
        asked = NativeAsked(sources, limits, samples=samples, beam=beam, **how)
        error = ctypes.create_string_buffer(ERROR)
        if library().qkv_search(self.handle, ctypes.byref(asked.struct), error, ERROR):
            raise InputError(f"{self.name} cannot write on from this: {error.value.decode(errors='replace')}")
        return asked.found()

    def stream(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], *, samples: int = 0, **how: Any
    ) -> Iterator[NativeStep]:
        """The same, greedy or drawn, as it is written; text s of source i has the number i * samples + s."""
        asked, error = NativeAsked(sources, limits, samples=samples, **how), ctypes.create_string_buffer(ERROR)
        handle = library().qkv_begin(self.handle, ctypes.byref(asked.struct), error, ERROR)
        out = [room("i", len(sources) * max(1, samples)) for _ in range(2)]
        try:
            count = 1 if handle else -1
            while count > 0:
                count = library().qkv_next(handle, *(row.buffer_info()[0] for row in out), error, ERROR)
                if count > 0:
                    rows, tokens = (row[:count] for row in out)
                    yield NativeStep(rows, tokens, asked.ended(rows))
            if count < 0:
                raise InputError(f"{self.name} cannot write on from this: {error.value.decode(errors='replace')}")
        finally:
            library().qkv_end(handle)

    def attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], layer: int, *, threads: int = 1
    ) -> "list[Floats]":
        """How much each head of a layer of the decoder, counted from 0, looks at each token of the source: (H, T, S)
        for each pair. Ids are as encoder and decoder read them, the ends among them."""
        import numpy as np

        if len(sources) != len(targets):
            raise InputError(f"there are {len(sources)} sources and {len(targets)} targets; give as many")
        given: dict[str, array[int]] = {"source_lengths": lengths_of(sources), "target_lengths": lengths_of(targets)}
        given |= {"sources": joined(sources), "targets": joined(targets)}
        shapes = [(len(t), self.heads, len(s)) for s, t in zip(sources, targets, strict=True)]
        out = np.empty(sum(map(prod, shapes)), np.float32)
        asked = NativeLook(
            pairs=len(sources), layer=layer, threads=threads, weights=out.ctypes.data,
            source_tokens=len(given["sources"]), target_tokens=len(given["targets"]), **pointers(given),
        )  # fmt: skip
        error = ctypes.create_string_buffer(ERROR)
        if library().qkv_attend(self.handle, ctypes.byref(asked), error, ERROR):
            raise InputError(f"{self.name} cannot look at this: {error.value.decode(errors='replace')}")
        parts = np.split(out, np.cumsum([prod(shape) for shape in shapes])[:-1])
        return [part.reshape(shape).transpose(1, 0, 2) for part, shape in zip(parts, shapes, strict=True)]
