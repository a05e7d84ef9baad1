"""Faster forms of the searches, each equal to the plain one: chosen by the names in ENGINES."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import torch

from qkv.decoding import Engine, Generator, Plain, Summariser, Translator
from qkv.engines.ctranslate2 import CTranslate2
from qkv.engines.fastest import fastest
from qkv.engines.lean import Lean, is_standard
from qkv.engines.native.file import has_native_form
from qkv.engines.native.library import NOT_BUILT, is_built, processor
from qkv.engines.native.reader import FILE as NATIVE
from qkv.engines.native.reader import native_file, open_native
from qkv.engines.native.writer import NativeWriter
from qkv.engines.quantize import FILE as QUANTISED
from qkv.engines.quantize import open_int8, standard
from qkv.engines.reader import can_read, lean_reader
from qkv.engines.shortlist import WITH, shortlisted
from qkv.engines.shortlist import load as load_shortlist
from qkv.engines.workers import SideBySide
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.memory import keep_freed_memory
from qkv.models import Model, Transformer

W = TypeVar("W", Translator, Generator, Summariser)
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


def open_summariser(loaded: Loaded, engine: str = "lean", workers: int = 1, *, own_process: bool = False) -> Summariser:
    """The summariser of a model folder, whose model has one stack or two; the rest as for a translator."""
    return opened(Summariser, loaded, engine, workers, own_process)


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


def open_bytes(path: Path, loaded: Loaded, device: str) -> Plain:
    """8 bits by our own engine, where it was built and the folder has its file; else by torch's kernels."""
    if device != "cpu" or not is_built() or not (path / NATIVE).exists():
        return open_int8(path, loaded, device)
    model = standard(loaded.model)

    def other() -> Plain:
        return open_int8(path, loaded, device) if (path / QUANTISED).exists() else Lean(model)

    return NativeWriter(model, native_file(path), other)


def has_fast_bytes(path: Path) -> bool:
    """Whether 8 bits by our own engine are the fastest: any processor with AVX2 has them sooner than torch float32."""
    return (path / NATIVE).exists() and is_built() and processor() != "plain"


def auto(path: Path, loaded: Loaded, device: str) -> Engine:
    """8 bits by our own engine, where `qkv quantize` has made them; else the fastest of those that folder and machine
    have, by measurement."""
    names = ["lean"]
    if device == "cpu" and is_standard(loaded.model) and has_fast_bytes(path):
        try:
            return open_bytes(path, loaded, device)
        except InputError as error:  # the model was trained on since then, or they are damaged
            print(f"engine int8 is left out: {error}", file=sys.stderr)
    if device == "cpu" and is_standard(loaded.model):
        has_bytes = (path / QUANTISED).exists()
        has_library = isinstance(loaded.model, Transformer) and bool(find_spec("ctranslate2"))
        names += ["int8"] * has_bytes + ["ctranslate2"] * has_library
        names += ["ctranslate2-int8"] * (has_bytes and has_library)
    if names == ["lean"]:
        return open_lean(path, loaded, device)
    return fastest(path, loaded, {name: partial(ENGINES[name], path, loaded, device) for name in names})


def in_words(engine: Engine) -> str:
    """Which engine it is, and how it computes."""
    if isinstance(engine, NativeWriter):
        return f"{engine.name} (8 bits by the native engine, {engine.native.processor})"
    if isinstance(engine, Lean):
        return f"{engine.name} ({'8 bits by torch' if engine.name.startswith('int8') else 'float32'})"
    return f"{engine.name} (the model as it is)" if isinstance(engine, Plain) else engine.name


def chosen(path: Path, model: Model) -> str:
    """What --engine auto takes on this CPU, and why; in few words."""
    if not has_native_form(getattr(model, "backbone", model)):
        return "plain: the model has no other form"
    if has_fast_bytes(path):
        return f"int8: {NATIVE} is there, for {processor()}"
    why = f"no {NATIVE} yet (qkv quantize)" if is_built() else "the native engine is not built"
    return f"{'the fastest' if is_standard(model) else 'lean'}: {why}"


def open_reader(loaded: Loaded, engine: str = "lean") -> Model:
    """The model of a folder in the form in which it reads texts; `engine` is a name in READERS.

    Where it has no lean form, or is not on a CPU, the engines lean and auto give the model as it is.
    """
    if engine not in READERS:
        raise InputError(f"unknown engine {engine!r} for a model that reads; {nearest(engine, READERS)}")
    folder, is_on_cpu = loaded.folder or Path(), next(loaded.model.parameters()).device.type == "cpu"
    if engine == "auto":
        engine = "int8" if has_fast_bytes(folder) else "lean"
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

# (the model folder, what it holds, the device)
ENGINES: dict[str, Callable[[Path, Loaded, str], Engine]] = {
    "lean": open_lean,
    "int8": open_bytes,
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
    if not isinstance(engine, Lean | NativeWriter) or not isinstance(loaded.model, Transformer):
        raise InputError(
            f"engine {engine.name} has no shortlist; use lean{WITH} or int8{WITH}, with a Transformer of scaled dot "
            "products and sinusoidal, learned or no positions, on a CPU"
        )
    return shortlisted(engine, load_shortlist(path, loaded.tokenizer))
