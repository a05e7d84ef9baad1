"""What searches, by the names in ENGINES: the native engine, another program, or the model as it is.

What is of torch is imported when it is opened: the native engine on a folder's own file needs none.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qkv import manifest
from qkv.decoding import Engine, Translator
from qkv.device import ENGINE
from qkv.engines.native.kept import FILE as NATIVE
from qkv.engines.native.kept import has_fast_bytes, native_file
from qkv.engines.native.library import NOT_BUILT, is_built, processor
from qkv.engines.native.writer import NativeWriter
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.late import late

if TYPE_CHECKING:
    from qkv.decoding import Generator, Summariser
    from qkv.decoding.searcher import Opened
    from qkv.engines.readers import READERS as READERS
    from qkv.engines.readers import open_reader as open_reader
    from qkv.models import Model

W = TypeVar("W", bound="Opened")
Open = Callable[[Loaded, int], Engine]  # of what a model folder holds, with so many threads
RENAMED = {"lean": "float32", "native": "float32", "fastest": "auto"}  # names that are read for one more version
WITH = "+shortlist"  # what stands after the name of an engine that uses one
__getattr__ = late(__name__, {"READERS": "readers", "open_reader": "readers"})


def open_translator(loaded: Loaded, engine: str = ENGINE, workers: int = 0) -> Translator:
    """The translator of a model folder; `engine` is a name in ENGINES, `workers` are the threads that it may use, and 0
    stands for as many as torch takes. The model as it is, in torch, always has those of torch."""
    return opened(Translator, loaded, engine, workers)


def open_generator(loaded: Loaded, engine: str = ENGINE, workers: int = 0) -> "Generator":
    """The generator of a model folder that holds a language model; the rest as for a translator."""
    from qkv.decoding.generator import Generator

    generator = opened(Generator, loaded, engine, workers)
    if not hasattr(generator.engine, "stream"):
        name = generator.engine.name
        raise InputError(f"engine {name} writes translations only; use float32 or plain for a language model")
    return generator


def open_summariser(loaded: Loaded, engine: str = ENGINE, workers: int = 0) -> "Summariser":
    """The summariser of a model folder, whose model has one stack or two; the rest as for a translator."""
    from qkv.decoding.summariser import Summariser

    return opened(Summariser, loaded, engine, workers)


def opened(kind: type[W], loaded: Loaded, engine: str, workers: int) -> W:
    if workers < 0:
        raise InputError(f"workers={workers} must be a number of threads, or 0 for as many as torch takes")
    return kind.of(loaded, open_engine(engine, loaded, workers))


# -- which one -------------------------------------------------------------------------------------------------------


def open_plain(loaded: Loaded, workers: int = 0) -> Engine:
    from qkv.decoding.plain import Plain

    return Plain(loaded.model)


def open_float32(loaded: Loaded, workers: int = 0) -> Engine:
    """The same numbers as the plain search, sooner: by the native engine where it has a form of the model."""
    from qkv.convert.native import can_write
    from qkv.engines.native.kept import in_memory

    if loaded.device != "cpu" or not can_write(loaded.model) or not is_there("writes"):
        return open_plain(loaded)
    return NativeWriter.of(loaded.model, in_memory(loaded.model), workers)


def open_bytes(loaded: Loaded, workers: int = 0) -> Engine:
    """The native engine on the folder's own file."""
    path = loaded.folder or Path()
    if loaded.device != "cpu":
        print(f"there are no 8 bits for {loaded.device}: writing in float32", file=sys.stderr)
        return open_plain(loaded)
    if not is_there("writes"):
        return open_plain(loaded)
    if loaded.context and not loaded.is_built and not manifest.changed(path):  # else the model says what is wrong
        ends = loaded.settings.get("source_end", True) is not False
        return NativeWriter(
            lambda: loaded.model, native_file(path), has_prompts=loaded.has_prompts, source_end=ends, workers=workers
        )
    from qkv.convert.native import can_write

    if not can_write(loaded.model):  # the file is of one that reads, as UniLM does; with what writes it is torch's
        return open_plain(loaded)
    return NativeWriter.of(loaded.model, native_file(path), workers)


def open_ctranslate2(loaded: Loaded, workers: int = 0, compute: str = "default") -> Engine:
    from qkv.engines.ctranslate2 import CTranslate2

    return CTranslate2.open(loaded, compute, workers)


def auto(loaded: Loaded, workers: int = 0) -> Engine:
    """8 bits where the folder has them, else float32, which is there at once and always the same; where the native
    engine was not built, CTranslate2 if it is installed and can hold the model."""
    if loaded.folder is not None and loaded.device == "cpu" and has_fast_bytes(loaded.folder):
        try:
            return open_bytes(loaded, workers)
        except InputError as error:  # the model was trained on since then, or they are damaged
            print(f"engine int8 is left out: {error}", file=sys.stderr)
    if not is_built() and has_two_stacks(loaded.model):
        with suppress(InputError):
            engine = open_ctranslate2(loaded, workers)
            tell_once(f"{NOT_BUILT}: CTranslate2 writes")
            return engine
    return open_float32(loaded, workers)


def has_two_stacks(model: "Model") -> bool:
    """Whether it is of the kind that CTranslate2 translates with."""
    from qkv.models import EncoderDecoder

    return isinstance(model, EncoderDecoder)


def is_there(does: str) -> bool:
    """Whether the native engine was built; where not, it is said what torch does in its place, once."""
    if not is_built():
        tell_once(f"{NOT_BUILT}: torch {does}, in float32")
    return is_built()


@cache
def tell_once(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def needs_torch(path: Path, device: str, engine: str) -> bool:
    """Whether a model folder will be run by torch, as far as can be told before it is read; one that is not there is
    refused without it."""
    return path.exists() and (device != "cpu" or engine not in ("auto", "int8") or not has_fast_bytes(path))


def in_words(engine: Engine) -> str:
    """Which engine it is, and how it computes."""
    if isinstance(engine, NativeWriter):
        return f"{engine.name} ({engine.native.bits} bits by the native engine, {engine.native.processor})"
    return f"{engine.name} (the model as it is, by torch)" if engine.name == "plain" else engine.name


def chosen(path: Path, model: "Model") -> str:
    """What --engine auto takes on this CPU, and why; in few words."""
    from qkv.convert.native import has_native_form

    if not has_native_form(getattr(model, "backbone", model)):
        return "plain: the model has no other form"
    if not is_built():
        other = has_two_stacks(model) and find_spec("ctranslate2") is not None
        return f"{'ctranslate2' if other else 'plain'}: the native engine is not built"
    return f"int8: {NATIVE} is there, for {processor()}" if has_fast_bytes(path) else "float32: " + no_bytes(path)


def why(loaded: Loaded, engine: Engine) -> str:
    """Why --engine auto has taken this one."""
    path = loaded.folder or Path()
    if not isinstance(engine, NativeWriter):
        return chosen(path, loaded.model).partition(": ")[2]
    return no_bytes(path) if engine.native.bits == 32 else f"{NATIVE} is there"


def no_bytes(path: Path) -> str:
    return f"{NATIVE} is left out" if (path / NATIVE).exists() else f"there is no {NATIVE} (qkv quantize makes it)"


ENGINES: dict[str, Open] = {
    "float32": open_float32,
    "int8": open_bytes,
    "ctranslate2": open_ctranslate2,
    "ctranslate2-int8": partial(open_ctranslate2, compute="int8"),
    "plain": open_plain,
    "auto": auto,
}


def open_engine(name: str, loaded: Loaded, workers: int = 0) -> Engine:
    """`name` is one of ENGINES; with +shortlist after it, the engine tries each sentence's shortlist only."""
    alone = name.removesuffix(WITH)
    if alone in RENAMED:
        new = name.replace(alone, RENAMED[alone], 1)
        print(f"the engine {name} is called {new} now; write {new}", file=sys.stderr)
        return open_engine(new, loaded, workers)
    if alone not in ENGINES:
        raise InputError(f"unknown engine {name!r}; {nearest(name, ENGINES)}")
    engine = ENGINES[alone](loaded, workers)
    if alone == name:
        return engine
    from qkv.engines.shortlist import with_shortlist

    return with_shortlist(engine, loaded)
