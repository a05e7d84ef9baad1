"""Which engine a name chooses: the table behind `--engine`."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from qkv.decoding.ctranslate2 import CTranslate2
from qkv.decoding.engine import Engine, Lean, Native
from qkv.decoding.fastest import fastest
from qkv.decoding.lean import is_standard
from qkv.decoding.quantize import FILE as QUANTISED
from qkv.decoding.quantize import open_int8
from qkv.decoding.shortlist import WITH, Shortlisted
from qkv.decoding.shortlist import load as load_shortlist
from qkv.errors import InputError, nearest
from qkv.folder import Loaded
from qkv.models import Model, Transformer

# (the model folder, what it holds, the device)
ENGINES: dict[str, Callable[[Path, Loaded, str], Engine]] = {
    "native": lambda path, loaded, device: native(loaded.model, device),
    "int8": open_int8,
    "ctranslate2": CTranslate2.open,
    "ctranslate2-int8": lambda path, loaded, device: CTranslate2.open(path, loaded, device, "int8"),
    "plain": lambda path, loaded, device: Native(loaded.model),
    "auto": lambda path, loaded, device: auto(path, loaded, device),
}


def native(model: Model, device: str) -> Native:
    """Our searches in float32, by whichever form is faster."""
    return Lean(model) if isinstance(model, Transformer) and is_standard(model) and device == "cpu" else Native(model)


def auto(path: Path, loaded: Loaded, device: str) -> Engine:
    """The fastest of the engines that folder and machine have; 8 bits only where `qkv quantize` has made them."""
    names = ["native"]
    if device == "cpu" and isinstance(loaded.model, Transformer) and is_standard(loaded.model):
        has_bytes, has_library = (path / QUANTISED).exists(), bool(find_spec("ctranslate2"))
        names += ["int8"] * has_bytes + ["ctranslate2"] * has_library
        names += ["ctranslate2-int8"] * (has_bytes and has_library)
    if len(names) == 1:
        return open_engine("native", path, loaded, device)
    return fastest(path, loaded, {name: partial(open_engine, name, path, loaded, device) for name in names})


def open_engine(name: str, path: Path, loaded: Loaded, device: str) -> Engine:
    """`name` is one of ENGINES; with +shortlist after it, the engine tries each sentence's shortlist only."""
    plain = name.removesuffix(WITH)
    if plain not in ENGINES:
        raise InputError(f"unknown engine {name!r}; {nearest(name, ENGINES)}")
    engine = ENGINES[plain](path, loaded, device)
    if plain == name:
        return engine
    if not isinstance(engine, Lean):
        raise InputError(
            f"engine {engine.name} has no shortlist; use native{WITH} or int8{WITH}, with a Transformer of scaled dot "
            "products and sinusoidal, learned or no positions, on a CPU"
        )
    return Shortlisted(engine, load_shortlist(path, loaded.tokenizer))
