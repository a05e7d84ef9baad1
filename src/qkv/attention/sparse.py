"""Self-attention to a few blocks of keys, whatever the length: sliding windows and blocks."""

from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.attention.flexible import Rule, by_rule, serves
from qkv.attention.soft import Soft
from qkv.block_kernel import Blocks, block_attention
from qkv.errors import InputError
from qkv.positions import NO_POSITION, Places, Position, Sizes

NARROW = 64  # queries that are computed together: smaller products keep no processor busy, larger ones see too much


class Sparse(Soft):
    """Self-attention in which each block of queries sees a few blocks of keys, counted from place 0.

    `plain` is full attention under the region's mask. `fused` lays beside each block of queries the blocks of keys that
    `blocks` names, so that time grows with the length and nothing of the size T * T is ever made. Where it cannot
    (tokens that do not stand one behind the other, masks of pairs, positions that add to the scores of all pairs), it
    is the fused kernel under the region's mask. On a GPU, unless weights are dropped, FlexAttention does it by `rule`.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    block: int  # tokens

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether a query at one place may see a key at another: places of any shape that broadcast."""
        raise NotImplementedError

    def region(self, at: Places) -> Tensor:
        return self.sees(*at.pairs)  # (T, S) or (B, 1, T, S)

    def rule(self, at: Places, real: Tensor | None) -> tuple[Rule, bool, bool] | None:
        """Who sees whom of tokens that stand one behind the other, of which `real` (B or 1, H or 1, T) can be seen, and
        whether that differs between rows and between heads; None if no rule says it."""
        shape = (1, 1) if real is None else real.shape[:2]

        def rule(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            may = self.sees(at.query[query], at.key[key])
            may = may & (query >= key) if at.causal else may
            return may if real is None else may & real[row % shape[0], head % shape[1], key]

        return rule, shape[0] > 1, shape[1] > 1

    def blocks(self, at: Places, real: Tensor | None, first: int, count: int) -> Blocks | None:
        """What the blocks `first`, `first` + 1, .. of a text see, `count` of them; None if too much to be worth it.

        `real` (B or 1, H or 1, count * block) is False at tokens that no query sees, None if there are none.
        """
        raise NotImplementedError

    def wide(self, at: Places, real: Tensor | None) -> tuple[Tensor, bool] | None:
        """The columns of the few queries, (B or 1, G), that see more than `blocks` names, and whether all of these see
        every token that is real; None if there are none."""
        return None

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        T, blocks = q.size(-2), None
        at = replace(at, causal=at.causal and mask is None)  # where there is a mask, it says what is seen
        if is_usual(at, mask, position):
            first, front = divmod(int(at.key[0]), self.block)  # where in a block the text begins
            behind = -(front + T) % self.block
            real = None if mask is None else mask[(None,) * (4 - mask.dim())][:, :, 0]  # (B or 1, H or 1, T)
            whole = real
            if front or behind:
                whole = F.pad(q.new_ones(1, 1, T, dtype=torch.bool) if real is None else real, (front, behind))
            blocks = self.blocks(at, whole, first, (front + T + behind) // self.block)
        if blocks is None:
            return super().fused(q, k, v, at, mask, position)
        dropout = self.dropout if self.training else 0.0
        if serves(q) and not dropout and (found := self.rule(at, real)):
            rule, rows, heads = found
            return by_rule(q, k, v, rule, rows=rows, heads=heads)
        columns, sees_all = self.wide(at, real) or (None, False)
        if columns is not None and sees_all and not dropout:
            blocks = blocks._replace(wide=columns + front, real=whole)
        own, its_k, its_v = (F.pad(each, (0, 0, front, behind)) if front or behind else each for each in (q, k, v))
        context = block_attention(own, its_k, its_v, blocks, dropout)[:, :, front : front + T]  # (B, H, T, K)
        if columns is None or blocks.wide is not None:
            return context
        index = columns[:, None, :, None].expand(len(q), q.size(1), -1, q.size(-1))
        query = at.query[columns] if len(columns) > 1 else at.query[columns[0]]
        apart = super().fused(q.gather(2, index), k, v, replace(at, query=query), mask, position)
        return context.scatter(2, index, apart)


def is_usual(at: Places, mask: Tensor | None, position: Position) -> bool:
    """Whether a whole text looks at itself, one token behind the other, and a mask hides tokens, not pairs."""
    is_padding = mask is None or mask.dim() < 2 or mask.size(-2) == 1
    has_score = type(position).score is not Position.score or position.has_value
    return is_padding and not has_score and at.in_order and int(at.key[-1] - at.key[0]) == at.key.size(-1) - 1


def gathered(real: Tensor | None, table: Tensor, block: int) -> Tensor | None:
    """Of tokens (B or 1, H or 1, count * block), those of the blocks in a table (.., count, n): (.., count, n * block).

    What the table numbers below 0 is False. Without tokens all are True; None if that is everything.
    """
    exists = table >= 0
    if real is None:
        return None if exists.all() else exists.repeat_interleave(block, dim=-1)
    parts = real.unflatten(-1, (-1, block))  # (B or 1, H or 1, count, block)
    rows, heads = (max(sizes) for sizes in zip(parts.shape[:2], table.shape[:2], strict=True))
    columns = table.clamp(min=0).flatten(2)[..., None].expand(rows, heads, -1, block)
    found = parts.expand(rows, heads, -1, -1).gather(2, columns).view(rows, heads, *table.shape[2:], block)
    return (found & exists[..., None]).flatten(-2)


def near(first: int, last: int, count: int, device: torch.device) -> Tensor:
    """The blocks from `first` before each of `count` blocks to `last` after it; -1 where there is none: (count, n)."""
    table = torch.arange(count, device=device)[:, None] + torch.arange(-first, last + 1, device=device)
    return table.masked_fill_(table >= count, -1).clamp_(min=-1)


def check_radius(radius: int) -> int:
    if radius < 1:
        raise InputError(f"a window with radius={radius} has no neighbours in it; give a radius of at least 1")
    return radius


class Window(Sparse):
    """Beltagy et al. 2020 (Longformer), section 3.1, sliding window: the query at t sees keys t - radius to t + radius.

    Under a causal mask it sees the `radius` keys before it and itself. The first `global_tokens` tokens see all and are
    seen by all, as far as a causal mask lets them.
    Differs: Longformer has projections of its own for global tokens.
    """

    block = NARROW

    def __init__(
        self, sizes: Sizes, *, radius: int = 128, global_tokens: int = 0, score: str = "scaled_dot",
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)
        if global_tokens < 0:
            raise InputError(f"global_tokens={global_tokens} is no number of tokens; give 0 or more")
        self.global_tokens = global_tokens

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        near = (query - key).abs() <= self.radius
        return near | (query < self.global_tokens) | (key < self.global_tokens) if self.global_tokens else near

    def outdated(self, at: Places) -> Tensor:
        return (at.key >= self.global_tokens) & (at.key < at.query[..., -1:] - self.radius)

    def blocks(self, at: Places, real: Tensor | None, first: int, count: int) -> Blocks | None:
        block, reach, device = self.block, -(-self.radius // self.block), at.key.device
        table = near(reach, 0 if at.causal else reach, count, device)  # (count, n)
        front = -(-max(0, self.global_tokens - first * block) // block)  # blocks in front that have global tokens
        n = table.size(1) + front
        if n * block >= at.key.size(-1):
            return None
        table = torch.cat((torch.arange(front, device=device).expand(count, -1), table), dim=1)[None, None]
        seen = gathered(real, table, block)
        query, key = torch.arange(block, device=device)[:, None], torch.arange((n - front) * block, device=device)
        away = query - key + reach * block  # how far before a query of a block each key of its window stands
        band = (away.abs() <= self.radius) & ((away >= 0) if at.causal else True)
        if front:
            place = ((first + table) * block)[..., None] + torch.arange(block, device=device)
            in_front = torch.arange(n, device=device) < front  # global tokens are seen there, and nowhere else
            once = ((place < self.global_tokens) == in_front[:, None]).flatten(-2)
            seen = once if seen is None else seen & once
            band = F.pad(band, (front * block, 0), value=True)
        return Blocks(table.clamp(min=0), seen, band)

    def wide(self, at: Places, real: Tensor | None) -> tuple[Tensor, bool] | None:
        last = self.global_tokens
        if at.causal:
            last = -(-last // self.block) * self.block  # of these blocks, none sees every global token
        count = min(last - int(at.key[0]), at.key.size(-1))
        return (torch.arange(count, device=at.key.device)[None], not at.causal) if count > 0 else None


class LocalM(Window):
    """Luong et al. 2015, section 3.2, local-m: the query at place t sees the keys from t - radius to t + radius.

    The paper's window is for a source and a target that run side by side: a query that stands more than `radius`
    places beyond the last key sees nothing.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder", "decoder", "memory")

    def __init__(self, sizes: Sizes, *, radius: int = 10, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, radius=radius, score=score, dropout=dropout)


class Local(Sparse):
    """Liu et al. 2018, section 4.2.4, local attention: a query sees the tokens of its own block, under a causal mask
    up to itself.

    With `before` it sees so many whole blocks before its own too: 1 is tensor2tensor's masked local attention.
    """

    def __init__(
        self, sizes: Sizes, *, block: int = 256, before: int = 0, score: str = "scaled_dot", dropout: float = 0.0
    ) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if block < 1:
            raise InputError(f"blocks of block={block} tokens hold none; give at least 1")
        if before < 0:
            raise InputError(f"before={before} is no number of blocks; give 0 or more")
        self.block, self.before = block, before

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        back = query // self.block - key // self.block
        return (back >= 0) & (back <= self.before)

    def outdated(self, at: Places) -> Tensor:
        return at.key // self.block < at.query[..., -1:] // self.block - self.before

    def blocks(self, at: Places, real: Tensor | None, first: int, count: int) -> Blocks | None:
        if (self.before + 1) * self.block >= at.key.size(-1):
            return None
        device = at.key.device
        table = near(self.before, 0, count, device)[None, None]
        query, key = torch.arange(self.block)[:, None], torch.arange((self.before + 1) * self.block)
        band = (query >= key - self.before * self.block).to(device) if at.causal else None
        return Blocks(table.clamp(min=0), gathered(real, table, self.block), band)
