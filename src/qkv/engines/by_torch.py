"""The engines that compute with torch, or are made out of a model of torch."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from qkv.decoding import Engine
from qkv.decoding.plain import Plain
from qkv.engines import ENGINES
from qkv.engines.ctranslate2 import CTranslate2
from qkv.engines.fastest import fastest
from qkv.engines.lean import Lean, is_standard
from qkv.engines.native.kept import has_fast_bytes
from qkv.engines.native.writer import NativeWriter
from qkv.engines.quantize import FILE as QUANTISED
from qkv.engines.quantize import open_int8, standard
from qkv.engines.shortlist import WITH, shortlisted
from qkv.engines.shortlist import load as load_shortlist
from qkv.engines.workers import SideBySide
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Transformer


def open_lean(path: Path, loaded: Loaded, device: str) -> Plain:
    """Our searches in float32, by whichever form is faster."""
    return Lean(loaded.model) if is_standard(loaded.model) and device == "cpu" else SideBySide(loaded.model)


def open_plain(path: Path, loaded: Loaded, device: str) -> Plain:
    return SideBySide(loaded.model)


def rest(path: Path, loaded: Loaded, device: str) -> Plain:
    """What does for our own engine what it has no form for."""
    return open_int8(path, loaded, device) if (path / QUANTISED).exists() else Lean(standard(loaded.model))


def open_fastest(path: Path, loaded: Loaded, device: str) -> Engine:
    """The fastest of those that folder and machine have, by measurement."""
    names = ["lean"]
    if device == "cpu" and is_standard(loaded.model):
        has_bytes = (path / QUANTISED).exists() or has_fast_bytes(path)
        has_library = isinstance(loaded.model, Transformer) and bool(find_spec("ctranslate2"))
        names += ["int8"] * has_bytes + ["ctranslate2"] * has_library
        names += ["ctranslate2-int8"] * (has_bytes and has_library)
    if names == ["lean"]:
        return open_lean(path, loaded, device)
    return fastest(path, loaded, {name: partial(ENGINES[name], path, loaded, device) for name in names})


def with_shortlist(engine: Engine, path: Path, loaded: Loaded) -> Engine:
    """The same engine, which tries each sentence's shortlist only."""
    if not isinstance(engine, Lean | NativeWriter) or not isinstance(loaded.model, Transformer):
        raise InputError(
            f"engine {engine.name} has no shortlist; use lean{WITH} or int8{WITH}, with a Transformer of scaled dot "
            "products and sinusoidal, learned or no positions, on a CPU"
        )
    return shortlisted(engine, load_shortlist(path, loaded.tokenizer))


BY_TORCH: dict[str, Callable[[Path, Loaded, str], Engine]] = {
    "lean": open_lean,
    "int8": open_int8,
    "ctranslate2": CTranslate2.open,
    "ctranslate2-int8": partial(CTranslate2.open, compute="int8"),
    "plain": open_plain,
    "fastest": open_fastest,
}
