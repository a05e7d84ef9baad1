"""Local attention: each query looks at some keys, around one place, in its block, or of its sentence."""

from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.attention.scores import draw
from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import NO_POSITION, Places, Position, Sizes

Limit = Literal["sentence", "document"]
NARROW = 64  # queries that are computed together, at least: smaller products keep no processor busy


def check_radius(radius: int) -> int:
    if radius < 1:
        raise InputError(f"a window with radius={radius} has no neighbours in it; give a radius of at least 1")
    return radius


class LocalM(Soft):
    """Luong et al. 2015, section 3.2, local-m: the query at place t sees the keys from t - radius to t + radius.

    The paper's window is for a source and a target that run side by side: a query that stands more than `radius`
    places beyond the last key sees nothing.
    """

    def __init__(self, sizes: Sizes, *, radius: int = 10, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)

    def region(self, at: Places) -> Tensor:
        return at.distance.abs() <= self.radius  # (T, S) or (B, 1, T, S)


class LocalP(Soft):
    """Luong et al. 2015, section 3.2, Eq. 9 and 10, local-p: each query predicts the place p_t around which it looks.

    p_t = S sigmoid(v^T tanh(W q)), and a(s) = align(q, k_s) exp(-(s - p_t)^2 / (2 sigma^2)) with sigma = radius / 2,
    where align is a softmax over the keys within `radius` of p_t. W and v are for each head; they learn through the
    Gaussian alone, which is not normalised. S is the number of keys that the query may see: neither padding nor
    neighbours nor decoding token by token change it.
    """

    def __init__(self, sizes: Sizes, *, radius: int = 10, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)
        self.weight, self.v = (draw(sizes.n_heads, sizes.head_width, columns) for columns in (sizes.head_width, 1))

    def place(self, scores: Tensor, q: Tensor) -> Tensor:
        """p_t, a real number for each query: (B, H, T, 1)."""
        chosen = torch.tanh(q @ self.weight) @ self.v  # (B, H, T, 1)
        wide = chosen.to(torch.promote_types(chosen.dtype, torch.float32))  # bfloat16 cannot tell place 300 from 301
        return (scores > -torch.inf).sum(dim=-1, keepdim=True) * wide.sigmoid()

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        away = at.pairs[1] - self.place(scores, q)  # (B, H, T, S)
        align = super().choose(scores.masked_fill(away.abs() > self.radius, -torch.inf), q, at)
        return align * torch.exp(-2 * (away / self.radius) ** 2)  # 1 / (2 sigma^2) = 2 / radius^2


class Near(Soft):
    """Self-attention in which no block of `size` queries sees further than the block before it and `after` it.

    `plain` is full attention under the region's mask. `fused` lays beside each block of queries only the blocks of
    keys that it can see, so that both products cost T * size instead of T * T.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    size: int
    after: ClassVar[int]  # 1 if the block after a query's own can be seen, else 0

    def seen(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether a query at one place may see a key at another."""
        raise NotImplementedError

    def region(self, at: Places) -> Tensor:
        return self.seen(*at.pairs)

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        T, keys = q.size(-2), (2 + self.after) * self.size
        has_score = type(position).score is not Position.score  # such a score is for all pairs, and is added to all
        if keys >= T or has_score or not at.in_order or int(at.key[-1] - at.key[0]) >= T:  # or some are left out
            return super().fused(q, k, v, at, mask, position)
        first = -(int(at.key[0]) % self.size)  # blocks are counted from place 0, wherever the text begins
        blocks = -((first - T) // self.size)
        here = first + torch.arange(blocks * self.size, device=q.device).view(blocks, self.size)
        there = here[:, :1] - self.size + torch.arange(keys, device=q.device)  # (blocks, keys)
        exists = (there >= 0) & (there < T)  # the first block has none before it
        here, there = here.clamp(0, T - 1), there.clamp(0, T - 1)
        visible = self.pairs(at, mask, here, there) & exists[:, None]
        visible = visible.expand(len(q), *visible.shape[1:])
        rows = (x.transpose(1, 2).flatten(0, 1) for x in (q[:, :, here], k[:, :, there], v[:, :, there], visible))
        own, near, of_near, may = rows  # blocks are rows of the batch: (B * blocks, H, ..)
        context = F.scaled_dot_product_attention(own, near, of_near, may, self.dropout if self.training else 0.0)
        context = context.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2, 3)
        return context[:, :, -first : T - first]  # (B, H, T, K)

    def pairs(self, at: Places, mask: Tensor | None, here: Tensor, there: Tensor) -> Tensor:
        """Which of its keys each query of each block may see: (B or 1, H or 1, blocks, size, keys)."""
        query, key = at.query[here][:, :, None], at.key[there][:, None]
        region = self.seen(query, key)
        if mask is None:
            return (region & (query >= key) if at.causal else region)[None, None]
        whole = mask[(None,) * (4 - mask.dim())]  # (B or 1, H or 1, T or 1, S)
        if whole.size(-2) == 1:
            return region & whole[:, :, 0, there][:, :, :, None]
        return region & whole[:, :, here[:, :, None], there[:, None]]


class Window(Near):
    """Beltagy et al. 2020 (Longformer), section 3.1, sliding window: the query at t sees keys t - radius to t + radius.

    Under a causal mask it sees the `radius` keys before it and itself.
    """

    after = 1

    def __init__(self, sizes: Sizes, *, radius: int = 128, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)
        self.size = max(radius, NARROW)

    def seen(self, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= self.radius


class Blocks(Near):
    """Liu et al. 2018, section 4.2.4, as tensor2tensor has it: a query sees its own block and the one before.

    The blocks of `size` tokens are counted from the beginning. Under a causal mask this is tensor2tensor's masked local
    attention: a query sees its own block up to itself, and the whole block before.
    """

    after = 0

    def __init__(self, sizes: Sizes, *, size: int = 128, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if size < 1:
            raise InputError(f"blocks of size={size} hold no token; give a size of at least 1")
        self.size = size

    def seen(self, query: Tensor, key: Tensor) -> Tensor:
        back = query // self.size - key // self.size
        return (back == 0) | (back == 1)


class Scope(Soft):
    """Bao et al. 2021 (G-Transformer), group attention: a token sees its own sentence, or else the whole document.

    `limit` is "sentence" or "document": lecture notes call attention with these limits "local" and "general", which is
    neither Luong et al. 2015's windows (`local_m`, `local_p`) nor his general score. Where sentences end is in
    `at.sentence`; a text with no ends is one sentence.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder",)

    def __init__(
        self, sizes: Sizes, *, limit: Limit = "sentence", score: str = "scaled_dot", dropout: float = 0.0
    ) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if limit not in get_args(Limit):
            raise InputError(f"limit={limit!r} is no scope; give 'sentence' or 'document'")
        self.limit = limit

    def region(self, at: Places) -> Tensor | None:
        if self.limit == "document":
            return None
        if at.sentence is None:
            raise InputError(
                "scope(limit='sentence') was not told where sentences end; "
                "set sentence_ends to the ids that end one, or take scope(limit='document')"
            )
        last = at.sentence.size(1) - at.query.size(-1)  # where rows differ, places are no columns
        own = at.sentence[:, at.query] if at.query.dim() == 1 else at.sentence[:, last:]  # (B, T)
        return (own[:, :, None] == at.sentence[:, None, :])[:, None]  # (B, 1, T, S)


def sentence_numbers(ids: Tensor, ends: list[int]) -> Tensor:
    """The number of the sentence that each token of a text belongs to; `ends` are the ids that end one: (B, S)."""
    is_end = torch.isin(ids, torch.tensor(ends, device=ids.device)).long()
    return is_end.cumsum(dim=1) - is_end
