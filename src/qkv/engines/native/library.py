"""The native engine as Python sees it: a library of a few functions, opened by ctypes, which releases the lock."""

import ctypes
import os
import weakref
from array import array
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from qkv.errors import InputError

if TYPE_CHECKING:  # numpy takes as long to import as all else of a short translation, which needs none
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Floats = NDArray[np.float32]

LIBRARY = os.environ.get("QKV_NATIVE") or str(Path(__file__).parent / "lib" / "engine.so")  # native/build.py makes it
HELD = "QKV_CPU"  # an environment variable: avx512, avx2 or plain, the fastest path that may be taken
POOLS = ("states", "mean", "first", "last")
ERROR = 512  # bytes of a sentence
NOT_BUILT = "the native engine is not built here (it needs a C++ compiler when qkv is installed)"
How = Literal["states", "mean", "first", "last"]


class NativeSearch(ctypes.Structure):
    """What is asked of a search, and where its answer goes: struct Asked of native/search.h."""

    _fields_: ClassVar = [
        *((name, ctypes.c_int32) for name in ("sentences", "beam", "samples", "no_repeat", "ends", "top_k", "threads")),
        *((name, ctypes.c_int32) for name in ("never_count", "first", "end")),
        *((name, ctypes.c_float) for name in ("temperature", "top_p")),
        *((name, ctypes.c_void_p) for name in ("lengths", "ids", "limits", "never")),
        *((name, ctypes.c_void_p) for name in ("listed", "listed_starts", "numbers")),
        *((name, ctypes.c_int64) for name in ("tokens", "width", "each")),
        *((name, ctypes.c_void_p) for name in ("counts", "sizes", "texts", "log_p")),
    ]


class NativeFound(NamedTuple):
    """Of one sentence: texts in the order in which they ended, each with its end if it has one, and their log p."""

    texts: list[list[int]]
    log_p: list[float]


@cache
def library() -> Any:
    """The library, or None where it was not built (there was no compiler) or is of another machine."""
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    found.qkv_open.restype = pointer
    found.qkv_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, pointer, size]
    found.qkv_close.restype = None
    found.qkv_close.argtypes = [pointer]
    found.qkv_path.restype = ctypes.c_char_p
    found.qkv_path.argtypes = [ctypes.c_char_p, pointer, size]
    found.qkv_width.argtypes = found.qkv_places.argtypes = [pointer]
    found.qkv_read.argtypes = [pointer, ctypes.c_int32, ctypes.c_int64, *[pointer] * 3, *[ctypes.c_int32] * 2, pointer]
    found.qkv_read.argtypes += [pointer, size]
    found.qkv_search.argtypes = [pointer, ctypes.POINTER(NativeSearch), pointer, size]
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

    def __init__(self, path: Path) -> None:
        self.path = path
        if not is_built():
            raise InputError(f"{NOT_BUILT}; install one and qkv again, or use another engine")
        error = ctypes.create_string_buffer(ERROR)
        self.processor = processor()
        self.handle = library().qkv_open(os.fsencode(path), held(), error, ERROR)
        if not self.handle:
            raise InputError(f"{path} cannot be used: {error.value.decode(errors='replace')}")
        self.width = int(library().qkv_width(self.handle))  # D of a vector
        self.places = int(library().qkv_places(self.handle))  # tokens of a text at most
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
            raise InputError(f"{self.path.name} cannot read this: {error.value.decode(errors='replace')}")
        return out

    def search(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], *, first: int, end: int, never: Sequence[int],
        lists: Sequence[Sequence[int]] | None = None, numbers: "NDArray[np.float64] | None" = None, threads: int = 1,
        beam: int = 1, samples: int = 0, **rules: Any,
    ) -> list[NativeFound]:  # fmt: skip
        """Sources as the encoder reads them, or prompts; at most limits[i] tokens of each text. `first` is what a
        translation begins with, `never` are what no text holds, `lists` what each may hold, rising, its end among it;
        with `samples`, so many texts of each are drawn by `numbers` (n, samples, limit). See native/search.h."""
        count, width, each = len(sources), max(limits), samples or 2 * beam
        given: dict[str, array[Any]] = {
            "lengths": array("i", map(len, sources)), "ids": array("i", chain.from_iterable(sources)),
            "limits": array("i", limits), "never": array("i", never),
        }  # fmt: skip
        if lists is not None:
            if len(lists) != count:
                raise InputError(f"there are {count} sentences and {len(lists)} lists; give as many")
            given["listed"] = array("i", chain.from_iterable(lists))
            given["listed_starts"] = array("q", accumulate(map(len, lists), initial=0))
        if samples and (numbers is None or numbers.shape != (count, samples, width)):
            shape = (0,) if numbers is None else numbers.shape
            raise InputError(f"numbers {shape} are not ({count}, {samples}, {width})")
        out: dict[str, array[Any]] = {
            "counts": array("i", bytes(4 * count)), "sizes": array("i", bytes(4 * count * each)),
            "texts": array("i", bytes(4 * count * each * width)), "log_p": array("f", bytes(4 * count * each)),
        }  # fmt: skip
        pointers = {name: one.buffer_info()[0] for name, one in (given | out).items()}
        if numbers is not None:
            numbers = numbers.astype("float64", order="C", copy=False)
            pointers["numbers"] = numbers.ctypes.data
        asked = NativeSearch(
            sentences=count, beam=beam, samples=samples, threads=threads, never_count=len(never), first=first, end=end,
            tokens=len(given["ids"]), width=width, each=each, **pointers, **rules,
        )  # fmt: skip
        error = ctypes.create_string_buffer(ERROR)
        if library().qkv_search(self.handle, ctypes.byref(asked), error, ERROR):
            raise InputError(f"{self.path.name} cannot write on from this: {error.value.decode(errors='replace')}")
        found = []
        for first_text, number in zip(range(0, count * each, each), out["counts"], strict=True):
            rows = range(first_text, first_text + number)
            texts = [out["texts"][row * width : row * width + out["sizes"][row]].tolist() for row in rows]
            found.append(NativeFound(texts, out["log_p"][first_text : first_text + number].tolist()))
        return found
