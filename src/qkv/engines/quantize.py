"""The 8-bit form of a model: made once, kept as int8.safetensors in its folder, and opened as an engine."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from qkv.convert import digest
from qkv.decoding.engine import Engine, Search
from qkv.decoding.plain import Plain
from qkv.decoding.translator import longest_targets
from qkv.engines.lean import Lean, is_standard, lean_writer
from qkv.engines.likeness import batches
from qkv.engines.native.file import write
from qkv.engines.native.library import Native, is_built
from qkv.engines.native.writer import NativeWriter
from qkv.engines.products import Calibration, Int8, Make, Product, has_kernel, quantised
from qkv.engines.reader import lean_reader
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import GPT2, Model, Transformer
from qkv.weights import read_weights, save_weights

FILE = "int8.safetensors"
WRITTEN = 16  # tokens after each text of a language model, which give ranges too


@dataclass(frozen=True)
class Stored:
    """One product of a quantised model: values (F, D) in 8 bits, a scale for each row, and the range of its input."""

    values: Tensor
    scale: Tensor
    range: Tensor  # (2,): lowest and highest
    smooth: Tensor | None = None  # (D,): what the input is divided by


def standard(model: Model) -> Transformer | GPT2:
    """The model that writes, if its products can be quantised."""
    if not is_standard(model):
        raise InputError(
            f"only a Transformer or a GPT-2 with scaled dot products and sinusoidal, learned or no positions can be "
            f"quantised, and this is a {type(model).__name__} ({model.sizes()}); use --engine lean"
        )
    return model


@torch.inference_mode()
def quantize(model: Model, sources: list[list[int]]) -> dict[str, Stored]:
    """All products of a model that writes, their input's ranges as they are when these sentences are translated
    greedily; or when a GPT-2 reads these texts, and goes on from them by some words."""
    watched, plain = Calibration(), standard(model)
    limits, how = longest_targets(sources, plain.config.max_length), Search(beam=1)
    if isinstance(plain, GPT2):
        limits, how = [WRITTEN] * len(sources), Search(beam=1, ends="never")
    Lean(plain, lean_writer(plain, watched, eager=math.inf)).decode(sources, limits, how)
    return stored(watched, smooth=isinstance(plain, GPT2))


@torch.inference_mode()
def smoothing(model: Model, rows: list[list[int]]) -> dict[str, Tensor]:
    """What the inputs of a backbone's products are divided by, from their ranges when these texts are read."""
    watched = Calibration()
    reader: Any = lean_reader(model, watched)
    for ids in batches(rows):
        reader.encode(ids)
    return {name: watched.smoothing(name) for name in watched.weights}


def stored(watched: Calibration, *, smooth: bool = False) -> dict[str, Stored]:
    """With `smooth` for stacks in which some channels are far wider than others: what a pre-trained model learns."""
    found = {}
    for name, weight in watched.weights.items():
        by = watched.smoothing(name) if smooth else torch.ones(weight.size(1))
        ends = torch.stack([(watched.low[name] / by).min(), (watched.high[name] / by).max()])
        found[name] = Stored(*quantised(weight * by), ends, by if smooth else None)
    return found


def by_bytes(kept: dict[str, Stored]) -> Make:
    """Makes the products of a quantised model."""

    def make(name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
        if name not in kept:
            raise InputError(f"{FILE} has no {name}, which the model has; make it anew with: qkv quantize")
        stored = kept[name]
        if stored.values.shape != weight.shape:
            raise InputError(f"{FILE}: {name} has shape {tuple(stored.values.shape)}, the model {tuple(weight.shape)}")
        low, high = stored.range.tolist()
        return Int8(stored.values, stored.scale, bias, low, high, activation, stored.smooth)

    return make


def int8_engine(model: Model, kept: dict[str, Stored]) -> Lean:
    """The searches on a quantised model."""
    plain = standard(model)
    engine = Lean(plain, lean_writer(plain, by_bytes(kept)))
    engine.name = "int8"
    return engine


def eight_bits(model: Model, folder: Path, new: Path, kept: dict[str, Stored]) -> dict[str, Engine]:
    """The 8-bit forms of a model that writes: that of the native engine, for which a new file is written, and torch's,
    for machines that the native engine was not built on."""
    write(new, model, made_of=digest(folder))
    if not is_built():
        return {"int8": int8_engine(model, kept)}
    return {"int8": NativeWriter(model, Native(new)), "int8_torch": int8_engine(model, kept)}


# -- the file --------------------------------------------------------------------------------------------------------


def save(folder: Path, kept: dict[str, Stored]) -> None:
    every = {f"{name}.{part}": value for name, stored in kept.items() for part, value in vars(stored).items()}
    tensors = {name: value for name, value in every.items() if value is not None}
    save_weights(folder / FILE, tensors, weights=digest(folder))


def load(folder: Path) -> dict[str, Stored]:
    """What `save` wrote, if it is of the weights that the folder has now."""
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder} has no {FILE}; make it with: qkv quantize {folder}")
    try:
        tensors, header = read_weights(path)
        names = dict.fromkeys(name.rpartition(".")[0] for name in tensors)
        kept = {}
        for name in names:
            values, scale, ends = (tensors[f"{name}.{part}"] for part in ("values", "scale", "range"))
            kept[name] = Stored(values, scale, ends, tensors.get(f"{name}.smooth"))
    except (SafetensorError, OSError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}); make it anew with: qkv quantize {folder}") from None
    if header.get("weights") != digest(folder):
        raise InputError(f"{path} was made of other weights; make it anew with: qkv quantize {folder}")
    return kept


def open_int8(folder: Path, loaded: Loaded, device: str) -> Plain:
    """The engine of a model folder; in float32, and saying so, where there is no kernel for 8 bits."""
    model = standard(loaded.model)
    if device != "cpu" or not has_kernel():
        print(f"there are no 8-bit kernels for {device} here: writing in float32", file=sys.stderr)
        return Lean(model) if device == "cpu" else Plain(model)
    return int8_engine(model, load(folder))


def tokens_agree(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """The share of tokens that stand at the same place in both."""
    pairs = list(zip(ours, theirs, strict=True))
    same = sum(a == b for one, other in pairs for a, b in zip(one, other, strict=False))
    return same / max(1, sum(max(len(one), len(other)) for one, other in pairs))
