"""One layer of an encoder or a decoder, in the order of the paper's Figure 1."""

from typing import Literal

from torch import Tensor, nn

from qkv.attention import KeyValues, MultiHead
from qkv.layers.feed_forward import FeedForward
from qkv.layers.residual import Residual
from qkv.layers.stack_config import StackConfig
from qkv.positions import Places, Position

Use = Literal["encoder", "decoder"]


class Seen:
    """What one block has computed in earlier decoding steps: its own keys and values, and those of the memory."""

    def __init__(self) -> None:
        self.own, self.source = KeyValues(), KeyValues()

    def reorder(self, rows: Tensor) -> None:
        self.own.reorder(rows)
        self.source.reorder(rows)


class Block(nn.Module):
    """Self-attention, attention over a memory if it has one, feed-forward; a residual around each."""

    def __init__(self, c: StackConfig, *, use: Use = "encoder", has_memory: bool = False) -> None:
        super().__init__()
        self.attention = MultiHead(c, attention=c.attention_of(use), use=use)
        self.attention_residual = Residual(c.d_model, c.dropout, c.norm, c.eps)
        self.has_memory = has_memory
        if has_memory:
            self.memory_attention = MultiHead(c, attention=c.attention_of("memory"), use="memory")
            self.memory_residual = Residual(c.d_model, c.dropout, c.norm, c.eps)
        self.feed_forward = FeedForward(c)
        self.feed_forward_residual = Residual(c.d_model, c.dropout, c.norm, c.eps)

    def forward(
        self,
        x: Tensor,
        at: Places,
        position: Position,
        mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        seen: Seen | None = None,
    ) -> Tensor:
        own, source = (seen.own, seen.source) if seen else (None, None)
        x = self.attention_residual(x, lambda x: self.attention(x, at, mask=mask, position=position, seen=own))
        if self.has_memory:
            x = self.memory_residual(
                x, lambda x: self.memory_attention(x, at, memory=memory, mask=memory_mask, seen=source)
            )
        x = self.feed_forward_residual(x, self.feed_forward)
        return x
