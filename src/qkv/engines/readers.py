"""The forms in which a model reads texts: chosen by the names in READERS."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qkv.convert.native import has_native_form
from qkv.device import ENGINE
from qkv.engines import RENAMED, is_there
from qkv.engines.native.kept import has_fast_bytes, in_memory
from qkv.engines.native.reader import native_reader, open_native
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.models import Headed, Model


def open_reader(loaded: Loaded, engine: str = ENGINE) -> Model:
    """The model of a folder in the form in which it reads texts; `engine` is a name in READERS.

    Where the native engine has no form of it, or it is not on a CPU, it reads as it is.
    """
    if (new := RENAMED.get(engine)) in READERS:
        print(f"the engine {engine} is called {new} now; write {new}", file=sys.stderr)
        return open_reader(loaded, str(new))
    if engine not in READERS:
        raise InputError(f"unknown engine {engine!r} for a model that reads; {nearest(engine, READERS)}")
    is_on_cpu = next(loaded.model.parameters()).device.type == "cpu"
    return READERS[engine](loaded) if is_on_cpu else loaded.model


def by_bytes(loaded: Loaded) -> Model:
    return open_native(loaded.folder or Path(), loaded.model) if is_there("reads") else loaded.model


def by_floats(loaded: Loaded) -> Model:
    read: Any = loaded.model.backbone if isinstance(loaded.model, Headed) else loaded.model
    if not has_native_form(read) or not is_there("reads"):
        return loaded.model
    return native_reader(loaded.model, in_memory(read))


def auto(loaded: Loaded) -> Model:
    """8 bits where `qkv quantize` has made them and this processor has AVX2; else float32."""
    if loaded.folder is not None and has_fast_bytes(loaded.folder):
        try:
            return by_bytes(loaded)
        except InputError as error:  # the model was trained on since then, or they are damaged
            print(f"engine int8 is left out: {error}", file=sys.stderr)
    return by_floats(loaded)


READERS: dict[str, Callable[[Loaded], Model]] = {
    "float32": by_floats,
    "int8": by_bytes,
    "plain": lambda loaded: loaded.model,
    "auto": auto,
}
