"""Products of matrices in 8 bits: weights quantised once, the range of each product's input measured beforehand."""

import warnings
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qkv.decoding.lean import Dense, Product
from qkv.layers import ACTIVATIONS

LEVELS = 127  # of a weight on each side of 0


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


class Int8:
    """x W^T + b with x and W in 8 bits and sums in 32; the result is float32.

    x is cut to [low, high], the range that calibration has seen, and not to its own: a row's result does not depend on
    the rows beside it.
    """

    def __init__(
        self, values: Tensor, scale: Tensor, bias: Tensor | None, low: float, high: float, activation: str = ""
    ) -> None:
        low, high, levels = min(low, 0.0), max(high, 0.0), input_levels() - 1
        self.scale = max((high - low) / levels, 1e-8)
        self.zero = min(max(round(-low / self.scale), 0), levels)
        with warnings.catch_warnings(action="ignore"):  # that tensors of this kind will once be no more
            packed = torch._make_per_channel_quantized_tensor(
                values, scale.double(), torch.zeros(len(scale), dtype=torch.long), 0
            )
            before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
            self.packed = torch.ops.quantized.linear_prepack(packed, bias)
            torch.backends.quantized.engine = before
        ops, is_relu = torch.ops.quantized, activation == "relu"
        kind = "relu_output_fp32" if is_relu else "output_fp32"
        # The operator behind the name: finding it anew costs a small product more than the product.
        self.product = getattr(ops, f"linear_with_input_q_dq_qweight_dq_{kind}").default._op
        self.activation = None if is_relu else ACTIVATIONS.get(activation)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self.product(x, self.scale, self.zero, self.packed)
        return y if self.activation is None else self.activation(y)


@dataclass
class Watched:
    """Makes products that compute in float32 and keep the range of what they are given."""

    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)

    def __call__(self, name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
        dense = Dense(name, weight, bias, activation)

        def product(x: Tensor) -> Tensor:
            low, high = (float(end) for end in x.aminmax())
            self.low[name] = min(low, self.low.get(name, low))
            self.high[name] = max(high, self.high.get(name, high))
            return dense(x)

        return product
