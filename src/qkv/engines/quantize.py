"""The 8-bit form of a model: made once, kept as int8.safetensors in its folder, and opened as an engine."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from qkv.convert import digest
from qkv.decoding.engine import Plain, Search
from qkv.decoding.translator import longest_targets
from qkv.engines.lean import Lean, LeanTransformer, is_standard
from qkv.engines.products import Calibration, Int8, Product, has_kernel, quantised
from qkv.errors import InputError
from qkv.files import write_with
from qkv.folder import Loaded
from qkv.models import Model, Transformer

FILE = "int8.safetensors"


@dataclass(frozen=True)
class Stored:
    """One product of a quantised model: values (F, D) in 8 bits, a scale for each row, and the range of its input."""

    values: Tensor
    scale: Tensor
    range: Tensor  # (2,): lowest and highest


def standard(model: Model) -> Transformer:
    """The model, if its products can be quantised."""
    if not is_standard(model) or not isinstance(model, Transformer):
        raise InputError(
            f"only a Transformer with scaled dot products and sinusoidal, learned or no positions can be quantised, "
            f"and this is a {type(model).__name__} ({model.sizes()}); use --engine lean"
        )
    return model


@torch.inference_mode()
def quantize(model: Model, sources: list[list[int]]) -> dict[str, Stored]:
    """All products of a model, their input's ranges as they are when these sentences are translated greedily."""
    watched, plain = Calibration(), standard(model)
    limits = longest_targets(sources, plain.config.max_length)
    Lean(plain, LeanTransformer(plain, watched, eager=math.inf)).decode(sources, limits, Search(beam=1))
    return {
        name: Stored(*quantised(weight), torch.tensor([watched.low[name], watched.high[name]]))
        for name, weight in watched.weights.items()
    }


def int8_engine(model: Model, kept: dict[str, Stored]) -> Lean:
    """The searches on a quantised model."""

    def make(name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
        stored = kept[name]
        if stored.values.shape != weight.shape:
            raise InputError(f"{FILE}: {name} has shape {tuple(stored.values.shape)}, the model {tuple(weight.shape)}")
        low, high = stored.range.tolist()
        return Int8(stored.values, stored.scale, bias, low, high, activation)

    plain = standard(model)
    engine = Lean(plain, LeanTransformer(plain, make))
    engine.name = "int8"
    return engine


# -- the file --------------------------------------------------------------------------------------------------------


def save(folder: Path, kept: dict[str, Stored]) -> None:
    tensors = {f"{name}.{part}": value for name, stored in kept.items() for part, value in vars(stored).items()}
    metadata = {"format": "pt", "weights": digest(folder)}
    write_with(folder / FILE, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load(folder: Path) -> dict[str, Stored]:
    """What `save` wrote, if it is of the weights that the folder has now."""
    path = folder / FILE
    if not path.exists():
        raise InputError(f"{folder} has no {FILE}; make it with: qkv quantize {folder}")
    try:
        with safe_open(path, "pt") as file:
            of = (file.metadata() or {}).get("weights")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        names = dict.fromkeys(name.rpartition(".")[0] for name in tensors)
        kept = {name: Stored(*(tensors[f"{name}.{part}"] for part in ("values", "scale", "range"))) for name in names}
    except (SafetensorError, OSError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}); make it anew with: qkv quantize {folder}") from None
    if of != digest(folder):
        raise InputError(f"{path} was made of other weights; make it anew with: qkv quantize {folder}")
    return kept


def open_int8(folder: Path, loaded: Loaded, device: str) -> Plain:
    """The engine of a model folder; in float32, and saying so, where there is no kernel for 8 bits."""
    model = standard(loaded.model)
    if device != "cpu" or not has_kernel():
        print(f"there are no 8-bit kernels for {device} here: translating in float32", file=sys.stderr)
        return Lean(model) if device == "cpu" else Plain(model)
    return int8_engine(model, load(folder))


def tokens_agree(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """The share of tokens that stand at the same place in both."""
    pairs = list(zip(ours, theirs, strict=True))
    same = sum(a == b for one, other in pairs for a, b in zip(one, other, strict=False))
    return same / max(1, sum(max(len(one), len(other)) for one, other in pairs))
