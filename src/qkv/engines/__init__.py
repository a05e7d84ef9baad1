"""Faster forms of the searches, each equal to the plain one: chosen by the names in ENGINES."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import torch

from qkv.decoding import Engine, Generator, Plain, Translator
from qkv.engines.ctranslate2 import CTranslate2
from qkv.engines.fastest import fastest
from qkv.engines.lean import Lean, is_standard
from qkv.engines.products import has_kernel
from qkv.engines.quantize import FILE as QUANTISED
from qkv.engines.quantize import by_bytes, open_int8
from qkv.engines.quantize import load as load_int8
from qkv.engines.reader import can_read, lean_reader
from qkv.engines.shortlist import WITH, Shortlisted
from qkv.engines.shortlist import load as load_shortlist
from qkv.engines.workers import SideBySide
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.memory import keep_freed_memory
from qkv.models import Model, Transformer

W = TypeVar("W", Translator, Generator)
RENAMED = {"native": "lean"}  # names that are read for one more version


def open_translator(loaded: Loaded, engine: str = "lean", workers: int = 1, *, own_process: bool = False) -> Translator:
    """The translator of a model folder; `engine` is a name in ENGINES, `workers` are processes that decode.

    It changes nothing of the process that it is in. With `own_process`, as commands ask, it does: there is a worker for
    each thread of torch, little work is done by one thread, and memory that is freed is kept.
    """
    return opened(Translator, loaded, engine, workers, own_process)


def open_generator(loaded: Loaded, engine: str = "lean", workers: int = 1, *, own_process: bool = False) -> Generator:
    """The generator of a model folder that holds a language model; the rest as for a translator."""
    generator = opened(Generator, loaded, engine, workers, own_process)
    if not isinstance(generator.engine, Plain):
        name = generator.engine.name
        raise InputError(f"engine {name} writes translations only; use lean or plain for a language model")
    return generator


def opened(kind: type[W], loaded: Loaded, engine: str, workers: int, own_process: bool) -> W:
    device = next(loaded.model.parameters()).device.type
    found = open_engine(engine, loaded.folder or Path(), loaded, device)
    if own_process and device == "cpu":
        keep_freed_memory()
        workers = torch.get_num_threads()
        if isinstance(found, Lean):
            found.sets_threads = True
    return kind(loaded.model, loaded.tokenizer, loaded.about, found, workers=workers, folder=loaded.folder)


def open_lean(path: Path, loaded: Loaded, device: str) -> Plain:
    """Our searches in float32, by whichever form is faster."""
    return Lean(loaded.model) if is_standard(loaded.model) and device == "cpu" else SideBySide(loaded.model)


def auto(path: Path, loaded: Loaded, device: str) -> Engine:
    """The fastest of the engines that folder and machine have; 8 bits only where `qkv quantize` has made them."""
    names = ["lean"]
    if device == "cpu" and is_standard(loaded.model):
        has_bytes = (path / QUANTISED).exists()
        has_library = isinstance(loaded.model, Transformer) and bool(find_spec("ctranslate2"))
        names += ["int8"] * has_bytes + ["ctranslate2"] * has_library
        names += ["ctranslate2-int8"] * (has_bytes and has_library)
    if names == ["lean"]:
        return open_lean(path, loaded, device)
    return fastest(path, loaded, {name: partial(ENGINES[name], path, loaded, device) for name in names})


def open_reader(loaded: Loaded, engine: str = "lean") -> Model:
    """The model of a folder in the form in which it reads texts; `engine` is a name in READERS.

    Where it has no lean form, or is not on a CPU, the engines lean and auto give the model as it is.
    """
    if engine not in READERS:
        raise InputError(f"unknown engine {engine!r} for a model that reads; {nearest(engine, READERS)}")
    folder, is_on_cpu = loaded.folder or Path(), next(loaded.model.parameters()).device.type == "cpu"
    if engine == "auto":
        engine = "int8" if (folder / QUANTISED).exists() else "lean"
    if engine == "plain" or not is_on_cpu or (engine == "lean" and not can_read(loaded.model)):
        return loaded.model
    if engine == "int8" and not has_kernel():
        print("there are no 8-bit kernels here: reading in float32", file=sys.stderr)
        return lean_reader(loaded.model)
    return READERS[engine](folder, loaded.model)


READERS: dict[str, Callable[[Path, Model], Model]] = {
    "lean": lambda path, model: lean_reader(model),
    "bfloat16": lambda path, model: lean_reader(model, precision=torch.bfloat16),
    "int8": lambda path, model: lean_reader(model, by_bytes(load_int8(path))),
    "plain": lambda path, model: model,
    "auto": lambda path, model: model,  # int8 where `qkv quantize` has made it, or else lean
}

# (the model folder, what it holds, the device)
ENGINES: dict[str, Callable[[Path, Loaded, str], Engine]] = {
    "lean": open_lean,
    "int8": open_int8,
    "ctranslate2": CTranslate2.open,
    "ctranslate2-int8": partial(CTranslate2.open, compute="int8"),
    "plain": lambda path, loaded, device: SideBySide(loaded.model),
    "auto": auto,
}


def open_engine(name: str, path: Path, loaded: Loaded, device: str) -> Engine:
    """`name` is one of ENGINES; with +shortlist after it, the engine tries each sentence's shortlist only."""
    alone = name.removesuffix(WITH)
    if alone in RENAMED:
        new = name.replace(alone, RENAMED[alone], 1)
        print(f"the engine {name} is called {new} now; write {new}", file=sys.stderr)
        return open_engine(new, path, loaded, device)
    if alone not in ENGINES:
        raise InputError(f"unknown engine {name!r}; {nearest(name, ENGINES)}")
    engine = ENGINES[alone](path, loaded, device)
    if alone == name:
        return engine
    if not isinstance(engine, Lean) or not isinstance(loaded.model, Transformer):
        raise InputError(
            f"engine {engine.name} has no shortlist; use lean{WITH} or int8{WITH}, with a Transformer of scaled dot "
            "products and sinusoidal, learned or no positions, on a CPU"
        )
    return Shortlisted(engine, load_shortlist(path, loaded.tokenizer))
