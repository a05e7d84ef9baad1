"""The native engine's file in a model folder: whether it is there, and whether it is of the weights beside it."""

import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from qkv import manifest
from qkv.engines.native.library import Native, is_built, processor
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.manifest import NATIVE as FILE
from qkv.text.frames import FRAMES

if TYPE_CHECKING:
    from qkv.engines.native.asked import Floats
    from qkv.engines.native.library import How
    from qkv.models import Model

DIGEST = slice(76, 108)  # where the SHA-256 of the weights stands that a file was made of; see native/file.cpp


def made_of(path: Path) -> str:
    """The SHA-256 of the weights that a file was made of."""
    with path.open("rb") as file:
        return file.read(DIGEST.stop)[DIGEST].hex()


def has_fast_bytes(folder: Path) -> bool:
    """Whether 8 bits by our own engine are the fastest: any processor with AVX2 has them sooner than torch float32."""
    return (folder / FILE).exists() and is_built() and processor() != "plain"


def native_file(folder: Path) -> Native:
    """The file which `qkv quantize` has made, if there is one, and of the weights that the folder has now."""
    path, again = folder / FILE, f"make it with: qkv quantize {folder}"
    if not path.exists():
        raise InputError(f"{folder} has no {FILE}; {again}")
    try:
        native = Native(path)
    except InputError as error:
        raise InputError(f"{error}; {again}") from None
    if manifest.has_weights(folder) and made_of(path) != manifest.weights_digest(folder):
        raise InputError(f"{path} was made of other weights; {again}")
    return native


def file_of(loaded: Loaded, engine: str) -> Native | None:
    """The file that is enough to read by, with no model: where an engine of that name takes it, the folder tells all
    else, and its files are as they were written. If not, the model says what is wrong."""
    if engine not in ("auto", "int8") or loaded.folder is None or loaded.is_built or loaded.device != "cpu":
        return None
    told = loaded.architecture in FRAMES and loaded.size
    if not told or not has_fast_bytes(loaded.folder) or manifest.changed(loaded.folder):
        return None
    try:
        return native_file(loaded.folder)
    except InputError:
        return None


def threads() -> int:
    """As many as torch takes: one for each core, or OMP_NUM_THREADS; torch itself is asked where it is imported."""
    if (torch := sys.modules.get("torch")) is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def vectors(native: Native, rows: Sequence[Sequence[int]], pool: "How") -> "Floats":
    """The mean, first or last state (n, D) of each row of ids; zeros for a row of none."""
    import numpy as np

    lengths = np.array([len(row) for row in rows], np.int32)
    ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(lengths.sum()))
    found = np.zeros((len(rows), native.width), np.float32)
    found[lengths > 0] = native.read(lengths[lengths > 0], ids, pool=pool, threads=threads())
    return found


def in_memory(model: "Model") -> Native:
    """The engine on the weights that a model has now, in float32: in a file that has no name and goes with it."""
    from qkv.convert.native import as_file

    whole, name = as_file(model, 32), "the model in float32"
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():  # Linux
        with os.fdopen(os.memfd_create("qkv"), "wb") as file:
            file.write(whole)
            file.flush()
            return Native(Path(f"/proc/self/fd/{file.fileno()}"), name)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.qkv"
        path.write_bytes(whole)
        return Native(path, name)
