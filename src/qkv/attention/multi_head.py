"""Multi-head attention: the projections and heads around any attention, and what they have seen before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention.choose import build_attention
from qkv.kernels import FastLinear, linear
from qkv.positions import NO_POSITION, Places, Position, Sizes


class Remembered:
    """What decoding has computed: tensors whose row i belongs to hypothesis i, alone, in lists, or in other Remembered.

    It is passed in and returned, never left on a module.
    """

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was: beams change places, finished sentences leave."""
        for name, value in vars(self).items():
            setattr(self, name, picked(value, rows))


def picked(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[rows]
    if isinstance(value, list | tuple):
        return type(value)(picked(one, rows) for one in value)
    if isinstance(value, Remembered):
        value.reorder(rows)
    return value


@dataclass
class KeyValues(Remembered):
    """What one attention has seen: k and v, each (B, H, S, K), without the `forgotten` ones behind the first `kept`."""

    k: Tensor | None = None
    v: Tensor | None = None
    kept: int = 0
    forgotten: int = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Everything so far and the new token."""
        if self.k is not None and self.v is not None:
            k, v = torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2)
        self.k, self.v = k, v
        return k, v

    def left(self, at: Places, mask: Tensor | None) -> tuple[Places, Tensor | None]:
        """What is said of all keys, of those alone that are not forgotten."""
        if not self.forgotten:
            return at, mask

        def cut(x: Tensor) -> Tensor:  # (.., S)
            return torch.cat((x[..., : self.kept], x[..., self.kept + self.forgotten :]), dim=-1)

        at = replace(at, key=cut(at.key), same=None if at.same is None else cut(at.same), run=0)
        return at, mask if mask is None or mask.size(-1) == 1 else cut(mask)

    def forget(self, old: Tensor) -> None:
        """The keys that are old, (S,) or in all rows (B, S), of those that are left; they stand together."""
        places = (old if old.dim() == 1 else old.all(dim=0)).nonzero()
        if self.k is None or self.v is None or not len(places):
            return
        start, stop = int(places[0]), int(places[-1]) + 1
        if self.forgotten and not start <= self.kept <= stop:
            return
        self.k, self.v = (torch.cat((x[:, :, :start], x[:, :, stop:]), dim=2) for x in (self.k, self.v))
        self.kept, self.forgotten = start, self.forgotten + stop - start

    def forget_last(self) -> None:
        """As if the last token had not been read."""
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[:, :, :-1], self.v[:, :, :-1]


class AttentionSizes(Sizes, Protocol):
    """What multi-head attention needs to know of the model it serves."""

    @property
    def attention(self) -> str: ...
    @property
    def attention_bias(self) -> bool: ...

    fused: ClassVar[bool]  # whether forms may be taken that are faster and round otherwise: see kernels.py


class MultiHead(nn.Module):
    """Vaswani et al. 2017, section 3.2.2: Concat(head_1..head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    `attention` names the part that runs in each head (the model's own setting unless given), `use` says where in the
    model it stands: encoder, decoder or memory.
    """

    def __init__(self, c: AttentionSizes, *, attention: str = "", use: str = "encoder") -> None:
        super().__init__()
        self.n_heads, self.fused, inner = c.n_heads, c.fused, c.n_heads * c.head_width
        kind = FastLinear if c.fused else nn.Linear
        self.query = kind(c.d_model, inner, bias=c.attention_bias)
        self.key = kind(c.d_model, inner, bias=c.attention_bias)
        self.value = kind(c.d_model, inner, bias=c.attention_bias)
        self.output = kind(inner, c.d_model, bias=c.attention_bias)
        self.attend = build_attention(attention or c.attention, c, use)
        self.attend.always_fused = c.fused

    def forward(
        self, x: Tensor, at: Places, *, memory: Tensor | None = None, keys: Tensor | None = None,
        mask: Tensor | None = None, position: Position = NO_POSITION, seen: KeyValues | None = None,
    ) -> Tensor:  # fmt: skip
        """x (B, T, D) looks at itself, or at `memory` (B, S, D); `seen` holds what earlier steps computed.

        Or at `keys` (B, S, D), which stand in the same text, at `at.key`.
        """
        if keys is not None:
            k, v = (self.heads(each) for each in self.projected(keys, self.key, self.value))  # (B, H, S, K)
            q = position.rotate(self.heads(self.query(x)), at)
            k = position.rotate(k, replace(at, query=at.key))
        elif memory is None:
            q, k, v = (self.heads(each) for each in self.projected(x, self.query, self.key, self.value))  # (B, H, T, K)
            q, k = position.rotate(q, at), position.rotate(k, at)
            if seen is not None:
                k, v = seen.append(k, v)
                at, mask = seen.left(at, mask)
        else:
            q, seen = position.rotate(self.heads(self.query(x)), at), seen or KeyValues()
            if seen.k is None or seen.v is None:  # a memory does not change: once for each sentence
                seen.k, seen.v = self.heads(self.key(memory)), self.heads(self.value(memory))
            k, v, at = seen.k, seen.v, at.over(memory)
        context = self.attend(q, k, v, at, mask, position)  # (B, H, T, K)
        if seen is not None and memory is None and (old := self.attend.outdated(at)) is not None:
            seen.forget(old)
        return self.output(context.transpose(1, 2).flatten(2))  # (B, T, D)

    def projected(self, x: Tensor, *parts: nn.Linear) -> Sequence[Tensor]:
        """q, k or v of x, each (B, T, H * K); if `fused`, by one product, unless x is a single token."""
        if not self.fused or x.size(1) == 1:
            return [part(x) for part in parts]
        bias = torch.cat([part.bias for part in parts]) if self.query.bias is not None else None
        joined = linear if self.training else F.linear
        return joined(x, torch.cat([part.weight for part in parts]), bias).chunk(len(parts), dim=-1)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, K)
