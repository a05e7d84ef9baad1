"""The blocks of a stack in lean form, and what of texts goes through them: less work for the same numbers."""

from typing import Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft
from qkv.engines.beams import look
from qkv.engines.products import Make, joined, normalised, scaled
from qkv.layers import Block, GatedFeedForward, Stack
from qkv.positions import Position

MOSTLY = 0.95  # the share of real tokens above which packing costs more than it saves


def has_standard_parts(model: nn.Module) -> bool:
    """Scaled dot products, layer norms, plain feed-forward networks, plain blocks of them, and positions that touch
    embeddings alone."""
    if any(isinstance(module, nn.RMSNorm | GatedFeedForward) for module in model.modules()):
        return False
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if any(type(block) is not Block for stack in stacks for block in stack.blocks):
        return False
    positions = [type(position) for stack in stacks for position in stack.positions]
    hooks = ("rotate", "score", "value")
    attentions = [module.attend for module in model.modules() if isinstance(module, MultiHead)]
    return all(getattr(kind, hook) is getattr(Position, hook) for kind in positions for hook in hooks) and all(
        type(attend) is Soft and attend.can_fuse for attend in attentions
    )


class LeanBlock(nn.Module):
    """What `layers.Block` computes; q, k and v come from one product, and 1 / sqrt(d_k) is inside the weights of q."""

    has_memory: Final[bool]

    def __init__(self, block: Block, name: str, make: Make, activation: str) -> None:
        super().__init__()
        own, self.heads, self.has_memory = block.attention, block.attention.n_heads, block.has_memory
        self.is_pre = block.attention_residual.place == "pre"
        self.qkv = joined(f"{name}.qkv", make, scaled(own.query, self.heads), own.key, own.value)
        self.output = joined(f"{name}.output", make, own.output)
        self.norm = normalised(block.attention_residual.norm)
        self.expand = joined(f"{name}.expand", make, block.feed_forward.expand, activation=activation)
        self.contract = joined(f"{name}.contract", make, block.feed_forward.contract)
        self.feed_forward_norm = normalised(block.feed_forward_residual.norm)
        if block.has_memory:
            memory = block.memory_attention
            self.memory_query = joined(f"{name}.memory_query", make, scaled(memory.query, self.heads))
            self.memory_output = joined(f"{name}.memory_output", make, memory.output)
            self.memory_norm = normalised(block.memory_residual.norm)

    def read(
        self, x: Tensor, shape: list[int], real: Tensor | None, mask: Tensor | None, is_causal: bool,
        cache: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """All real tokens (N, D) of some texts (B, S); their keys and values go into a cache (2, B, H, S, K)."""
        qkv = padded(self.qkv(self.norm(x) if self.is_pre else x), shape, real)  # (B, S, 3 * H * K)
        q, k, v = qkv.view(shape[0], shape[1], 3 * self.heads, -1).transpose(1, 2).chunk(3, dim=1)  # (B, H, S, K)
        if cache is not None:
            cache.copy_(torch.stack((k, v)))
        context = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=1.0)
        x = x + self.output(packed(context.transpose(1, 2).flatten(2), real))
        return self.fed_forward(x if self.is_pre else self.norm(x))

    def forward(
        self, x: Tensor, cache: Tensor, used: int, width: int, mask: Tensor | None,
        memory: Tensor, memory_mask: Tensor | None, is_few: bool,
    ) -> Tensor:  # fmt: skip
        """The last token of each hypothesis (n * W, D), see `Beams`; its k and v go into the cache."""
        qkv = self.qkv(self.norm(x) if self.is_pre else x).view(-1, width, 3, self.heads, cache.size(4))
        cache.narrow(3, used, width).copy_(qkv.narrow(2, 1, 2).permute(2, 0, 3, 1, 4))
        past = cache.narrow(3, 0, used + width)
        x = x + self.output(look(qkv.select(2, 0), past[0], past[1], mask, is_few))
        x = x if self.is_pre else self.norm(x)
        if self.has_memory:
            q = self.memory_query(self.memory_norm(x) if self.is_pre else x).view(-1, width, self.heads, cache.size(4))
            x = x + self.memory_output(look(q, memory[0], memory[1], memory_mask, is_few))
            x = x if self.is_pre else self.memory_norm(x)
        return self.fed_forward(x)

    def fed_forward(self, x: Tensor) -> Tensor:
        if self.is_pre:
            return x + self.contract(self.expand(self.feed_forward_norm(x)))
        return self.feed_forward_norm(x + self.contract(self.expand(x)))


class LeanStack(nn.Module):
    """All blocks, after another: one call into compiled code."""

    def __init__(self, name: str, stack: Stack, make: Make, activation: str) -> None:
        super().__init__()
        blocks = [cast(Block, block) for block in stack.blocks]
        self.blocks = nn.ModuleList(LeanBlock(block, f"{name}.{i}", make, activation) for i, block in enumerate(blocks))


class LeanEncoder(LeanStack):
    def forward(
        self, x: Tensor, shape: list[int], real: Tensor | None, mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        for block in self.blocks:
            x = block.read(x, shape, real, mask, is_causal)  # type: ignore[operator]
        return x


class LeanDecoder(LeanStack):
    def forward(
        self, x: Tensor, cache: Tensor, used: int, width: int, mask: Tensor | None,
        memory: Tensor, memory_mask: Tensor | None, is_few: bool,
    ) -> Tensor:  # fmt: skip
        for layer, block in enumerate(self.blocks):
            x = block(x, cache[layer], used, width, mask, memory[layer], memory_mask, is_few)
        return x


def packed(x: Tensor, real: Tensor | None) -> Tensor:
    """(B, S, D) -> (N, D)"""
    rows = x.flatten(0, 1)
    return rows if real is None else rows[real]


def padded(x: Tensor, shape: list[int], real: Tensor | None) -> Tensor:
    """(N, D) -> (B, S, D), with zeros at padding."""
    if real is not None:
        x = x.new_zeros(shape[0] * shape[1], x.size(1)).index_copy_(0, real, x)
    return x.view(shape[0], shape[1], -1)
