"""Multi-head attention: the projections and heads around any attention."""

from typing import Protocol

from torch import Tensor, nn

from qkv.attention.cache import KeyValues
from qkv.attention.choose import build_attention
from qkv.positions import NO_POSITION, Places, Position, Sizes


class AttentionSizes(Sizes, Protocol):
    """What multi-head attention needs to know of the model it serves."""

    @property
    def attention(self) -> str: ...
    @property
    def attention_bias(self) -> bool: ...


class MultiHead(nn.Module):
    """Vaswani et al. 2017, section 3.2.2: Concat(head_1..head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    `attention` names the part that runs in each head (the model's own setting unless given), `use` says where in the
    model it stands: encoder, decoder or memory.
    """

    def __init__(self, c: AttentionSizes, *, attention: str = "", use: str = "encoder") -> None:
        super().__init__()
        self.n_heads, inner = c.n_heads, c.n_heads * c.head_width
        self.query = nn.Linear(c.d_model, inner, bias=c.attention_bias)
        self.key = nn.Linear(c.d_model, inner, bias=c.attention_bias)
        self.value = nn.Linear(c.d_model, inner, bias=c.attention_bias)
        self.output = nn.Linear(inner, c.d_model, bias=c.attention_bias)
        self.attend = build_attention(attention or c.attention, c, use)

    def forward(
        self,
        x: Tensor,
        at: Places,
        *,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        position: Position = NO_POSITION,
        seen: KeyValues | None = None,
    ) -> Tensor:
        """x (B, T, D) looks at itself, or at `memory` (B, S, D); `seen` holds what earlier steps computed."""
        q = position.rotate(self.heads(self.query(x)), at)  # (B, H, T, K)
        if memory is None:
            k, v = position.rotate(self.heads(self.key(x)), at), self.heads(self.value(x))
            if seen is not None:
                k, v = seen.append(k, v)
        else:
            there = memory
            seen = seen or KeyValues()
            k, v = seen.keep(lambda: (self.heads(self.key(there)), self.heads(self.value(there))))
            at = at.over(memory)
        context = self.attend(q, k, v, at, mask, position)  # (B, H, T, K)
        joined: Tensor = self.output(context.transpose(1, 2).flatten(2))  # (B, T, D)
        return joined

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, K)
