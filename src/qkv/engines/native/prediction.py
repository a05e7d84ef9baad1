"""What BERT's form predicts at a place, from the states of the native engine and the rest of a folder's weights."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.engines.native.library import Native
from qkv.folder import Loaded

Floats = NDArray[np.float32]
WEIGHTS = "model.safetensors"
PARTS = ("dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias")


erf = np.vectorize(math.erf, [np.float32])
ACTIVATIONS: dict[str, Callable[[Floats], Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "swish": lambda x: x / (1 + np.exp(-x)),
}


class NativePrediction:
    """Devlin et al. 2019 (BERT), the authors' code: logits = E LayerNorm(f(W h + b)) + c, E the table of tokens."""

    def __init__(self, native: Native, weights: list[Any], activation: str, eps: float) -> None:
        self.native, self.activation, self.eps = native, ACTIVATIONS[activation], eps
        self.dense, self.shift, self.gain, self.bias, self.silent, self.table = weights

    def log_p(self, states: Floats) -> Floats:
        """(N, D) -> (N, V)"""
        x = self.activation(states @ self.dense.T + self.shift)
        x = x - x.mean(axis=1, keepdims=True)
        x = x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + self.eps) * self.gain + self.bias
        logits = x @ self.table.T + self.silent
        logits -= logits.max(axis=1, keepdims=True)
        found: Floats = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return found


def prediction_of(loaded: Loaded, native: Native) -> NativePrediction | None:
    """That of a folder, if it has one and tells how it is computed."""
    activation, eps = loaded.settings.get("activation"), loaded.settings.get("eps")
    prefix = "backbone." * bool(loaded.heads)
    weights = weights_of(loaded, [*(f"{prefix}projection.{part}" for part in PARTS), f"{prefix}tokens.weight"])
    if activation not in ACTIVATIONS or not isinstance(eps, float) or weights is None:
        return None
    return NativePrediction(native, weights, activation, eps)


def weights_of(loaded: Loaded, names: list[str]) -> list[Any] | None:
    """Some weights of a folder, if it has all of them in one file."""
    from safetensors import safe_open

    path = (loaded.folder or Path()) / WEIGHTS
    if not path.exists():
        return None
    with safe_open(path, "numpy") as file:
        return [file.get_tensor(name) for name in names] if set(names) <= set(file.keys()) else None
