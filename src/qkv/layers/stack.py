"""Vaswani et al. 2017, Figure 1: sub-layers, blocks of them, and a stack of blocks with the positions that it owns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from qkv.attention import KeyValues, MultiHead, Remembered
from qkv.config import build
from qkv.errors import InputError
from qkv.kernels import FastLinear, gelu_tanh
from qkv.layers.dropout import Dropout
from qkv.layers.stack_config import ACTIVATIONS, Norm, StackConfig
from qkv.positions import POSITIONS, Places, Position

Use = Literal["encoder", "decoder"]


def normalisation(d_model: int, eps: float, *, rms: bool) -> nn.Module:
    """A layer norm (Ba et al. 2016), or an RMS norm (Zhang & Sennrich 2019, Eq. 4): w x / rms(x), no mean, no bias."""
    return nn.RMSNorm(d_model, eps) if rms else nn.LayerNorm(d_model, eps)


class Residual(nn.Module):
    """Vaswani et al. 2017, section 5.4, `post`: LayerNorm(x + Dropout(f(x))).

    `pre`, as in GPT-2: x + Dropout(f(LayerNorm(x))).
    """

    def __init__(self, d_model: int, dropout: float, norm: Norm, eps: float = 1e-5, *, rms: bool = False) -> None:
        super().__init__()
        self.norm = normalisation(d_model, eps, rms=rms)
        self.dropout = Dropout(dropout)
        self.place = norm

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        if self.place == "pre":
            return x + self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x)))


class FeedForward(nn.Module):
    """Vaswani et al. 2017, Eq. 2: FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every place.

    `activation` names what stands in the place of max(0, .).
    """

    def __init__(self, c: StackConfig) -> None:
        super().__init__()
        kind = FastLinear if c.fused else nn.Linear
        self.expand = kind(c.d_model, c.inner_width, bias=not c.gated)
        self.contract = kind(c.inner_width, c.d_model, bias=not c.gated)
        self.activation = ACTIVATIONS[c.activation]
        self.fused = c.fused and c.activation == "gelu_tanh"
        self.dropout = Dropout(c.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        activation = gelu_tanh if self.fused and self.training else self.activation
        return self.contract(self.dropout(activation(self.expand(x))))


class GatedFeedForward(FeedForward):
    """Shazeer 2020, Eq. 6 (SwiGLU): FFN(x) = (Swish(x W) * x V) W2, without biases. W is `gate`, V is `expand`."""

    def __init__(self, c: StackConfig) -> None:
        super().__init__(c)
        self.gate = type(self.expand)(c.d_model, c.inner_width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.dropout(self.activation(self.gate(x)) * self.expand(x)))


@dataclass
class Seen(Remembered):
    """What one block has computed in earlier decoding steps: its own keys and values, and those of the memory."""

    own: KeyValues = field(default_factory=KeyValues)
    source: KeyValues = field(default_factory=KeyValues)


class Block(nn.Module):
    """Self-attention, attention over a memory if it has one, feed-forward; a residual around each."""

    def __init__(self, c: StackConfig, *, use: Use = "encoder", has_memory: bool = False) -> None:
        super().__init__()
        self.attention = MultiHead(c, attention=c.attention_of(use), use=use)
        residual = partial(Residual, c.d_model, c.dropout, c.norm, c.eps, rms=c.rms)
        self.attention_residual = residual()
        self.has_memory = has_memory
        if has_memory:
            self.memory_attention = MultiHead(c, attention=c.attention_of("memory"), use="memory")
            self.memory_residual = residual()
        self.feed_forward = (GatedFeedForward if c.gated else FeedForward)(c)
        self.feed_forward_residual = residual()

    def forward(
        self, x: Tensor, at: Places, position: Position, mask: Tensor | None,
        memory: Tensor | None = None, memory_mask: Tensor | None = None, seen: Seen | None = None,
    ) -> Tensor:  # fmt: skip
        own, source = (seen.own, seen.source) if seen else (None, None)
        x = self.attention_residual(x, lambda x: self.attention(x, at, mask=mask, position=position, seen=own))
        if self.has_memory:
            look = partial(self.memory_attention, memory=memory, mask=memory_mask, seen=source)
            x = self.memory_residual(x, lambda x: look(x, at))
        return self.feed_forward_residual(x, self.feed_forward)


class Stack(nn.Module):
    """N blocks over embedded tokens. With pre-norm a last normalisation follows, since the last sum has had none.

    With `norm_inputs` a first one stands before them (BERT), behind the positions.
    """

    def __init__(
        self, c: StackConfig, *, layers: int, use: Use = "encoder", has_memory: bool = False, norm_inputs: bool = False
    ) -> None:
        super().__init__()
        first = build(POSITIONS, c.position, c)
        more = [build(POSITIONS, c.position, c) for _ in range(layers - 1 if first.per_layer else 0)]
        self.positions = nn.ModuleList([first, *more])  # one for all layers, or one for each
        self.norm_inputs = normalisation(c.d_model, c.eps, rms=c.rms) if norm_inputs else nn.Identity()
        self.dropout = Dropout(c.dropout)
        self.blocks = nn.ModuleList(Block(c, use=use, has_memory=has_memory) for _ in range(layers))
        self.position_name = c.position
        self.recompute = False  # in training, keep only what passes between blocks: see forward
        self.norm = normalisation(c.d_model, c.eps, rms=c.rms) if c.norm == "pre" else nn.Identity()

    @property
    def position(self) -> Position:
        """The one that touches the embeddings."""
        return self.positions[0]  # type: ignore[return-value]

    def refuse_trees(self, given: str) -> None:
        """For a model whose examples, `given`, have no dependency trees."""
        if self.position.needs_tree:
            raise InputError(
                f"{self.position_name!r} needs a dependency tree for each sentence, which {given} do not have; "
                "use qkv train --task heads, or another position"
            )

    def forward(
        self, x: Tensor, at: Places, mask: Tensor | None,
        memory: Tensor | None = None, memory_mask: Tensor | None = None, seen: list[Seen] | None = None,
    ) -> Tensor:  # fmt: skip
        """With `recompute`, the backward pass computes each block once more: less memory for a third more time.

        Chen et al. 2016, section 4: memory for activations falls from N blocks to one and N inputs.
        """
        x = self.dropout(self.norm_inputs(self.position.embed(x, at)))  # (B, T, D)
        again = self.recompute and self.training and torch.is_grad_enabled()
        for i, block in enumerate(self.blocks):
            run = partial(checkpoint, block, use_reentrant=False) if again else block
            position = self.positions[i % len(self.positions)]
            x = run(x, at, position, mask, memory, memory_mask, seen[i] if seen else None)
        return self.norm(x)
