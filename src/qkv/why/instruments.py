"""What the claims are measured with: small parts of qkv in float64, and how far apart two tensors are."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.layers import Stack
from qkv.models import TransformerConfig
from qkv.positions import Places

CPU = torch.device("cpu")


def small(**settings: Any) -> TransformerConfig:
    """The settings of a small part: width 16, four heads, no dropout, unless given."""
    return TransformerConfig(**{"d_model": 16, "d_ff": 64, "n_heads": 4, "dropout": 0.0, "vocab_size": 20, **settings})


def places(length: int) -> Places:
    return Places.span(0, length, CPU)


def multi_head(**settings: Any) -> MultiHead:
    return MultiHead(small(**settings)).double()


def stack(*, layers: int = 2, position: str = "none", **settings: Any) -> Stack:
    """An encoder stack in float64."""
    return Stack(small(position=position, **settings), layers=layers).double().eval()


def look(part: MultiHead, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What the heads of a self-attention give and their weights: (B, H, T, K), (B, H, T, S)."""
    q, k, v = (part.heads(project(x)) for project in (part.query, part.key, part.value))
    return part.attend.plain(q, k, v, places(x.size(1)), mask)


def identity(part: MultiHead) -> MultiHead:
    """The same attention with all four projections the identity: Q = K = V = X."""
    for project in (part.query, part.key, part.value, part.output):
        nn.init.eye_(project.weight)
    return part


def learn(part: nn.Module, loss: Callable[[], Tensor], *, steps: int, rate: float = 1e-2) -> None:
    """Adam on a loss that draws what it reads."""
    optimiser = torch.optim.Adam(part.parameters(), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference between two tensors."""
    return (a - b).abs().max().item()


def influence(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """How much the output at each place (row) depends on the input at each place (column): norms of a Jacobian.

    x is (1, T, D) and f keeps its length; the result is (T, T), and 0 means "does not depend" exactly.
    """
    jacobian = torch.autograd.functional.jacobian(f, x)[0, :, :, 0]  # (T, D, T, D)
    felt: Tensor = jacobian.transpose(1, 2).flatten(2).norm(dim=-1)
    return felt
