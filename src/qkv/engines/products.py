"""x W^T + b, and perhaps an activation, by whichever kernel: as it is, laid out beforehand, or in 8 bits."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.layers import ACTIVATIONS

ROWS = 32  # that the layout of packed weights is chosen for; it serves any number
PACKING = Lock()  # one thread at a time
LEVELS = 127  # of a weight on each side of 0
SMOOTH = 0.75  # how much of the channels' differences goes into the weights: the paper's value for wide ones

Product = Callable[[Tensor], Tensor]  # x (N, D) -> (N, F)
Make = Callable[[str, Tensor, Tensor | None, str], Product]  # of a name, a weight, a bias, an activation ("" for none)


class Dense(nn.Module):
    """The product as it is, in the precision of the weights."""

    def __init__(self, name: str, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        super().__init__()
        self.weight, self.bias, self.activation = weight, bias, COMPILED[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(F.linear(x, self.weight, self.bias))

    def rows(self, ids: Tensor) -> Product:
        """The product with some rows of W alone."""
        return Dense("", self.weight[ids], None if self.bias is None else self.bias[ids], "")


def as_it_is(x: Tensor) -> Tensor:
    return x


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


COMPILED = ACTIVATIONS | {"gelu_tanh": gelu_tanh, "": as_it_is}  # TorchScript knows no partial functions


class Packed(Dense):
    """The product with weights that oneDNN has laid out beforehand: of a large vocabulary it takes half the time."""

    def __init__(self, name: str, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
        super().__init__(name, laid_out, bias, activation)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], ""))


HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
FASTEST: Make = Packed if HAS_ONEDNN else Dense  # that gives what Dense does


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W (F, D) -> int8 values (F, D) and a scale for each row (F,), so that values * scale is near W."""
    scale = weight.abs().amax(dim=1).clamp(min=1e-8) / LEVELS
    return (weight / scale[:, None]).round().to(torch.int8), scale


def has_kernel() -> bool:
    """Whether this CPU has fbgemm, the library whose 8-bit products are used."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def input_levels() -> int:
    """256 where the CPU adds products of bytes in 32 bits (VNNI), 128 where it does so in 16 and might overflow."""
    return 256 if torch.cpu._is_vnni_supported() else 128


class Int8(nn.Module):
    """x W^T + b with x and W in 8 bits and sums in 32; the result is float32.

    x is cut to [low, high], the range that calibration has seen, and not to its own: a row's result does not depend on
    the rows beside it. `smooth` (D,) divides x before, as it has multiplied W.
    """

    def __init__(
        self, values: Tensor, scale: Tensor, bias: Tensor | None, low: float, high: float, activation: str = "",
        smooth: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.parts, self.range = (values, scale, bias), (low, high)
        self.smooth, self.inverse = smooth, None if smooth is None else 1 / smooth
        low, high, levels = min(low, 0.0), max(high, 0.0), input_levels() - 1
        self.scale = max((high - low) / levels, 1e-8)
        self.zero = min(max(round(-low / self.scale), 0), levels)
        # The library to pack for is a setting of the process; and that such tensors are deprecated, nobody asked.
        with PACKING, warnings.catch_warnings(action="ignore"):
            packed = torch._make_per_channel_quantized_tensor(
                values, scale.double(), torch.zeros(len(scale), dtype=torch.long), 0
            )
            before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
            self.packed = torch.ops.quantized.linear_prepack(packed, bias)
            torch.backends.quantized.engine = before
        self.is_relu = activation == "relu"
        self.activation = COMPILED["" if self.is_relu else activation]

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized
        if self.inverse is not None:
            x = x * self.inverse
        if self.is_relu:
            y: Tensor = ops.linear_with_input_q_dq_qweight_dq_relu_output_fp32(x, self.scale, self.zero, self.packed)
        else:
            y = self.activation(
                ops.linear_with_input_q_dq_qweight_dq_output_fp32(x, self.scale, self.zero, self.packed)
            )
        return y

    def rows(self, ids: Tensor) -> "Int8":
        """What is packed cannot be cut, so that the rows are packed anew."""
        values, scale, bias = self.parts
        return Int8(values[ids], scale[ids], None if bias is None else bias[ids], *self.range, smooth=self.smooth)


@dataclass
class Calibration:
    """Makes products that compute in float32, and keeps their weights and the ranges (D,) of what they are given."""

    weights: dict[str, Tensor] = field(default_factory=dict)
    low: dict[str, Tensor] = field(default_factory=dict)
    high: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
        dense: Product = Dense(name, weight, bias, activation)
        self.weights[name] = weight

        def product(x: Tensor) -> Tensor:
            low, high = x.aminmax(dim=0)
            self.low[name] = torch.minimum(low, self.low.get(name, low))
            self.high[name] = torch.maximum(high, self.high.get(name, high))
            return dense(x)

        return product

    def smoothing(self, name: str) -> Tensor:
        """Xiao et al. 2023 (SmoothQuant), Eq. 4: s_j = max|x_j|^a / max|w_j|^(1 - a), so that x / s has no channel that
        is far wider than the others, and s W bears what it lost."""
        widest = torch.maximum(self.high[name], -self.low[name]).clamp(min=1e-5)  # (D,)
        return widest**SMOOTH / self.weights[name].abs().amax(dim=0).clamp(min=1e-5) ** (1 - SMOOTH)


def normalised(norm: nn.Module) -> Product:
    """The norm with weights that are no parameters any more."""
    return copy.deepcopy(norm).requires_grad_(False)


def scaled(query: nn.Linear, heads: int) -> nn.Linear:
    """The same projection with 1 / sqrt(d_k) inside."""
    query = copy.deepcopy(query)
    for parameter in query.parameters():
        parameter.data *= (query.out_features // heads) ** -0.5
    return query


def joined(name: str, make: Make, *linears: Any, activation: str = "") -> Product:
    """One product for several projections of the same x."""
    weights = [linear.weight.detach() for linear in linears]
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    weight = torch.cat(weights) if len(weights) > 1 else weights[0]
    return make(name, weight, torch.cat(biases) if biases else None, activation)
