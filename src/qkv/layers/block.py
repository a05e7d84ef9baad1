"""One layer of an encoder or a decoder, in the order of the paper's Figure 1."""

from typing import Literal, Protocol

from torch import Tensor, nn

from qkv.attention import AttentionSizes, KeyValues, MultiHead, where_it_can
from qkv.layers.feed_forward import FeedForward, FeedForwardSizes
from qkv.layers.residual import Residual
from qkv.positions import Places, Position


class BlockSizes(AttentionSizes, FeedForwardSizes, Protocol):
    @property
    def dropout(self) -> float: ...
    @property
    def norm(self) -> Literal["post", "pre"]: ...
    @property
    def encoder_attention(self) -> str: ...
    @property
    def memory_attention(self) -> str: ...


class Seen:
    """What one block has computed in earlier decoding steps: its own keys and values, and those of the memory."""

    def __init__(self) -> None:
        self.own, self.source = KeyValues(), KeyValues()

    def reorder(self, rows: Tensor) -> None:
        self.own.reorder(rows)
        self.source.reorder(rows)


class Block(nn.Module):
    """Self-attention, attention over a memory (decoders only), feed-forward; a residual around each."""

    def __init__(self, c: BlockSizes, *, has_memory: bool) -> None:
        super().__init__()
        use = "decoder" if has_memory else "encoder"
        named = "" if has_memory else c.encoder_attention
        self.attention = MultiHead(c, attention=named or where_it_can(c.attention, use), use=use)
        self.attention_residual = Residual(c.d_model, c.dropout, c.norm)
        self.has_memory = has_memory
        if has_memory:
            named = c.memory_attention or where_it_can(c.attention, "memory")
            self.memory_attention = MultiHead(c, attention=named, use="memory")
            self.memory_residual = Residual(c.d_model, c.dropout, c.norm)
        self.feed_forward = FeedForward(c)
        self.feed_forward_residual = Residual(c.d_model, c.dropout, c.norm)

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
