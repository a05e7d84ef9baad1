"""The forms in which a model reads texts: chosen by the names in READERS."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch

from qkv.device import ENGINE
from qkv.engines.native.kept import has_fast_bytes
from qkv.engines.native.library import NOT_BUILT, is_built
from qkv.engines.native.reader import open_native
from qkv.engines.reader import can_read, lean_reader
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.models import Model


def open_reader(loaded: Loaded, engine: str = ENGINE) -> Model:
    """The model of a folder in the form in which it reads texts; `engine` is a name in READERS.

    Where it has no lean form, or is not on a CPU, the engines lean and auto give the model as it is.
    """
    if engine not in READERS:
        raise InputError(f"unknown engine {engine!r} for a model that reads; {nearest(engine, READERS)}")
    folder, is_on_cpu = loaded.folder or Path(), next(loaded.model.parameters()).device.type == "cpu"
    if engine == "auto":
        if loaded.folder is not None and is_on_cpu and has_fast_bytes(folder):
            try:
                return open_native(folder, loaded.model)
            except InputError as error:  # the model was trained on since then, or they are damaged
                print(f"engine int8 is left out: {error}", file=sys.stderr)
        engine = "lean"
    if engine == "plain" or not is_on_cpu or (engine == "lean" and not can_read(loaded.model)):
        return loaded.model
    if engine == "int8" and not is_built():
        print(f"{NOT_BUILT}: reading in float32", file=sys.stderr)
        return lean_reader(loaded.model)
    return READERS[engine](folder, loaded.model)


READERS: dict[str, Callable[[Path, Model], Model]] = {
    "lean": lambda path, model: lean_reader(model),
    "bfloat16": lambda path, model: lean_reader(model, precision=torch.bfloat16),
    "int8": open_native,
    "plain": lambda path, model: model,
    "auto": lambda path, model: model,  # int8 where `qkv quantize` has made it and this processor has AVX2; else lean
}
