"""Faster forms of the searches, each equal to the plain one: chosen by the names in ENGINES.

What computes with torch is in `by_torch`, and is imported when such an engine is opened: our own needs none.
"""

import sys
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qkv import manifest
from qkv.decoding import Engine, Translator
from qkv.device import ENGINE
from qkv.engines.native.kept import FILE as NATIVE
from qkv.engines.native.kept import has_fast_bytes, native_file, threads
from qkv.engines.native.library import NOT_BUILT, is_built, processor
from qkv.engines.native.writer import NativeWriter
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.late import late
from qkv.memory import keep_freed_memory

if TYPE_CHECKING:
    from qkv.decoding import Generator, Summariser
    from qkv.decoding.searcher import Opened
    from qkv.engines.readers import READERS as READERS
    from qkv.engines.readers import open_reader as open_reader
    from qkv.models import Model

W = TypeVar("W", bound="Opened")
Open = Callable[[Path, Loaded, str], Engine]  # of a model folder, what it holds, the device
RENAMED = {"native": "lean"}  # names that are read for one more version
WITH = "+shortlist"  # what stands after the name of an engine that uses one
__getattr__ = late(__name__, {"READERS": "readers", "open_reader": "readers"})


def open_translator(loaded: Loaded, engine: str = ENGINE, workers: int = 1, *, own_process: bool = False) -> Translator:
    """The translator of a model folder; `engine` is a name in ENGINES, `workers` are processes that decode.

    It changes nothing of the process that it is in. With `own_process`, as commands ask, it does: there is a worker for
    each thread of torch, little work is done by one thread, and memory that is freed is kept.
    """
    return opened(Translator, loaded, engine, workers, own_process)


def open_generator(loaded: Loaded, engine: str = ENGINE, workers: int = 1, *, own_process: bool = False) -> "Generator":
    """The generator of a model folder that holds a language model; the rest as for a translator."""
    from qkv.decoding.generator import Generator

    generator = opened(Generator, loaded, engine, workers, own_process)
    if not hasattr(generator.engine, "stream"):
        name = generator.engine.name
        raise InputError(f"engine {name} writes translations only; use lean or plain for a language model")
    return generator


def open_summariser(
    loaded: Loaded, engine: str = ENGINE, workers: int = 1, *, own_process: bool = False
) -> "Summariser":
    """The summariser of a model folder, whose model has one stack or two; the rest as for a translator."""
    from qkv.decoding.summariser import Summariser

    return opened(Summariser, loaded, engine, workers, own_process)


def opened(kind: type[W], loaded: Loaded, engine: str, workers: int, own_process: bool) -> W:
    found = open_engine(engine, loaded.folder or Path(), loaded, loaded.device, may_export=own_process)
    if own_process and loaded.device == "cpu":
        keep_freed_memory()
        workers = 1 if isinstance(found, NativeWriter) else threads()  # which has threads of its own
        if hasattr(found, "sets_threads"):
            found.sets_threads = True
    return kind.of(loaded, found, workers=workers)


# -- which one -------------------------------------------------------------------------------------------------------


def open_bytes(path: Path, loaded: Loaded, device: str) -> Engine:
    """8 bits by our own engine, where it was built and the folder has its file; else by torch's kernels."""

    def other() -> Any:
        from qkv.engines.by_torch import rest

        return rest(path, loaded, device)

    if device != "cpu" or not is_built() or not (path / NATIVE).exists():
        return open_by_torch("int8", path, loaded, device)
    if loaded.context and not loaded.is_built and not manifest.changed(path):  # else the model says what is wrong
        return NativeWriter(None, native_file(path), other, has_prompts=loaded.has_prompts)
    from qkv.engines.quantize import standard

    return NativeWriter(standard(loaded.model), native_file(path), other)


def auto(path: Path, loaded: Loaded, device: str, *, may_export: bool = False) -> Engine:
    """8 bits by our own engine, where the folder has them; else float32, which is there at once and always the same:
    by CTranslate2 where our own engine could not be built, and by torch in any other case."""
    if loaded.folder is not None and device == "cpu" and has_fast_bytes(path):
        try:
            return open_bytes(path, loaded, device)
        except InputError as error:  # the model was trained on since then, or they are damaged
            print(f"engine int8 is left out: {error}", file=sys.stderr)
    name = without_ours(loaded, may_export) if device == "cpu" and not is_built() else "lean"
    return open_by_torch(name, path, loaded, device)


def without_ours(loaded: Loaded, may_export: bool) -> str:
    """The engine of a machine on which our own was not built: CTranslate2, if it may write its form of the model."""
    from qkv.engines.lean import is_standard
    from qkv.models import Transformer

    if not is_standard(loaded.model):
        return "lean"
    has_library = may_export and isinstance(loaded.model, Transformer) and find_spec("ctranslate2") is not None
    tell_once(f"{NOT_BUILT}: {'CTranslate2' if has_library else 'torch'} writes, in float32")
    return "ctranslate2" if has_library else "lean"


@cache
def tell_once(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def needs_torch(path: Path, device: str, engine: str) -> bool:
    """Whether a model folder will be run by torch, as far as can be told before it is read; one that is not there is
    refused without it."""
    return path.exists() and (device != "cpu" or engine not in ("auto", "int8") or not has_fast_bytes(path))


def open_by_torch(name: str, path: Path, loaded: Loaded, device: str) -> Engine:
    from qkv.engines.by_torch import BY_TORCH

    return BY_TORCH[name](path, loaded, device)


def in_words(engine: Engine) -> str:
    """Which engine it is, and how it computes."""
    if isinstance(engine, NativeWriter):
        return f"{engine.name} ({engine.native.bits} bits by the native engine, {engine.native.processor})"
    from qkv.decoding.plain import Plain
    from qkv.engines.lean import Lean

    if isinstance(engine, Lean):
        return f"{engine.name} ({'8 bits by torch' if engine.name.startswith('int8') else 'float32'})"
    return f"{engine.name} (the model as it is)" if isinstance(engine, Plain) else engine.name


def chosen(path: Path, model: "Model") -> str:
    """What --engine auto takes on this CPU, and why; in few words."""
    from qkv.engines.native.file import has_native_form

    if not has_native_form(getattr(model, "backbone", model)):
        return "plain: the model has no other form"
    if has_fast_bytes(path):
        return f"int8: {NATIVE} is there, for {processor()}"
    return f"lean: {f'no {NATIVE} yet (qkv quantize)' if is_built() else 'the native engine is not built'}"


def why(path: Path, loaded: Loaded, engine: Engine) -> str:
    """Why --engine auto has taken this one."""
    if isinstance(engine, NativeWriter):
        return f"{NATIVE} is there"
    return f"{NATIVE} was left out" if has_fast_bytes(path) else chosen(path, loaded.model).partition(": ")[2]


ENGINES: dict[str, Open] = {
    "lean": partial(open_by_torch, "lean"),
    "int8": open_bytes,
    "ctranslate2": partial(open_by_torch, "ctranslate2"),
    "ctranslate2-int8": partial(open_by_torch, "ctranslate2-int8"),
    "plain": partial(open_by_torch, "plain"),
    "fastest": partial(open_by_torch, "fastest"),
    "auto": auto,
}


def open_engine(name: str, path: Path, loaded: Loaded, device: str, *, may_export: bool = False) -> Engine:
    """`name` is one of ENGINES; with +shortlist after it, the engine tries each sentence's shortlist only.

    `may_export`: auto may write another program's form of the model into its folder.
    """
    alone = name.removesuffix(WITH)
    if alone in RENAMED:
        new = name.replace(alone, RENAMED[alone], 1)
        print(f"the engine {name} is called {new} now; write {new}", file=sys.stderr)
        return open_engine(new, path, loaded, device, may_export=may_export)
    if alone not in ENGINES:
        raise InputError(f"unknown engine {name!r}; {nearest(name, ENGINES)}")
    engine = (
        auto(path, loaded, device, may_export=may_export) if alone == "auto" else ENGINES[alone](path, loaded, device)
    )
    if alone == name:
        return engine
    from qkv.engines.by_torch import with_shortlist

    return with_shortlist(engine, path, loaded)
