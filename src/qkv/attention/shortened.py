"""Attention to fewer keys and values than there are tokens: Linformer, and memory-compressed attention."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention.scores import draw
from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import NO_POSITION, Places, Position, Sizes

Share = Literal["none", "heads", "kv", "layers"]
ROWS = 512  # queries that are computed together: under a causal mask, those before see fewer slots


class Shortened(Soft):
    """Softmax(q k'^T / sqrt(K)) v' over M slots k', v' that are made of the tokens' k and v.

    A position that adds to the scores or the values of pairs of tokens has no pairs here: a stack refuses it.
    """

    shortens: ClassVar[bool] = True

    def __init__(self, sizes: Sizes, *, dropout: float = 0.0) -> None:
        super().__init__(sizes, dropout=dropout)

    def parts(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
        """Some queries after others: q (B, H, t, K), k' and v' (B, H, M, K), and what each sees, None for all slots."""
        raise NotImplementedError

    def of_tokens(self, weights: Tensor, at: Places, mask: Tensor | None) -> Tensor:
        """The weights of slots (B, H, T, M) as those of tokens (B, H, T, S)."""
        raise NotImplementedError

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        return self.fused(q, k, v, at, mask, position)

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        parts = [F.scaled_dot_product_attention(*part, dropout) for part in self.parts(q, k, v, at, mask)]
        return torch.cat(parts, dim=2)  # (B, H, T, K)

    def plain(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None = None, position: Position = NO_POSITION
    ) -> tuple[Tensor, Tensor]:
        contexts, weights = zip(*(self.by_steps(*part) for part in self.parts(q, k, v, at, mask)), strict=True)
        longest = max(each.size(-1) for each in weights)
        whole = torch.cat([F.pad(each, (0, longest - each.size(-1))) for each in weights], dim=2)  # (B, H, T, M)
        return torch.cat(contexts, dim=2), self.of_tokens(whole, at, mask)

    def by_steps(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5  # (B, H, t, M)
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf)
        weights = scores.softmax(dim=-1).nan_to_num()
        return F.dropout(weights, self.dropout, self.training) @ v, weights


class Linformer(Shortened):
    """Wang et al. 2020, Eq. 7: softmax(Q (E K)^T / sqrt(d_k)) F V, with E and F that make `k` slots of n places.

    n is the model's max_length; of a shorter text the first columns are used. `share` says which E and F are one: of
    all heads ("heads"), E = F too ("kv"), of all layers too ("layers"), or none (section 4). Every slot holds all
    tokens, so no query can be kept from seeing a later one: it stands in no decoder.
    Differs: the authors' code shortens x before W^K and W^V; without biases that is the same.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder", "memory")
    hides_pairs: ClassVar[bool] = False

    def __init__(self, sizes: Sizes, *, k: int = 256, share: Share = "kv", dropout: float = 0.0) -> None:
        super().__init__(sizes, dropout=dropout)
        if k < 1:
            raise InputError(f"k={k} slots hold nothing; give a k of at least 1")
        if share not in get_args(Share):
            raise InputError(f"share={share!r} is no way to share; give one of {', '.join(get_args(Share))}")
        self.share, self.length = share, sizes.max_length
        heads = sizes.n_heads if share == "none" else 1
        self.of_keys = nn.Parameter(torch.randn(heads, k, self.length) * self.length**-0.5)  # E
        if share in ("none", "heads"):
            self.of_values = nn.Parameter(torch.randn(heads, k, self.length) * self.length**-0.5)  # F

    def settle(self, layer: int, first: Soft) -> None:
        if self.share == "layers" and isinstance(first, Linformer):
            self.of_keys = first.of_keys

    def columns(self, at: Places, mask: Tensor | None) -> list[Tensor]:
        """E and F where the keys stand, 0 at padding: each (.., H or 1, k, S)."""
        if (longest := int(at.key.max()) + 1) > self.length:
            raise InputError(
                f"{longest} keys are more than the {self.length} places that linformer has; "
                "give shorter text, or train with a larger max_length"
            )
        found: list[Tensor] = [self.of_keys, self.of_values if hasattr(self, "of_values") else self.of_keys]
        if not torch.equal(at.key, torch.arange(at.key.size(-1), device=at.key.device)):
            found = [each[:, :, at.key] for each in found]  # (H or 1, k, S), or (H or 1, k, B, S)
            found = [each if each.dim() == 3 else each.movedim(2, 0) for each in found]
        else:
            found = [each[:, :, : at.key.size(-1)] for each in found]
        if mask is None:
            return found
        if mask.dim() > 1 and mask.size(-2) > 1:
            raise InputError("linformer's slots hold all tokens of a text: no mask can hide single pairs; take another")
        return [each * mask.to(each.dtype) for each in found]

    def parts(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
        of_keys, of_values = self.columns(at, mask)
        yield q, of_keys.to(k.dtype) @ k, of_values.to(v.dtype) @ v, None

    def of_tokens(self, weights: Tensor, at: Places, mask: Tensor | None) -> Tensor:
        """(P F) V = P (F V): with these the tokens' values are mixed. They may be below 0 and need not sum to 1."""
        return weights @ self.columns(at, mask)[1].to(weights.dtype)


class MemoryCompressed(Shortened):
    """Liu et al. 2018, section 4.2.4: a strided convolution makes one slot of each `factor` keys, and of their values.

    A slot reads the `kernel` tokens up to the last of its block (the paper's: `factor` of them). It is seen by queries
    that may see all of them; under a causal mask, by those from its last token on. So that the first queries see
    something, there is a learned slot in front of them. The convolution is by head, without a bias.
    Differs: tensor2tensor convolves x before W^K and W^V, and has the first token in front.
    """

    def __init__(self, sizes: Sizes, *, factor: int = 3, kernel: int = 0, dropout: float = 0.0) -> None:
        super().__init__(sizes, dropout=dropout)
        if factor < 1:
            raise InputError(f"factor={factor} compresses nothing into a slot; give at least 1")
        if kernel and kernel < factor:
            raise InputError(f"kernel={kernel} would leave out tokens of each {factor}; give at least {factor}, or 0")
        self.factor, self.kernel = factor, kernel or factor
        heads, width = sizes.n_heads, sizes.head_width
        self.of_keys, self.of_values = (draw(heads, self.kernel * width, width) for _ in range(2))
        self.has_first = factor > 1
        if self.has_first:
            self.first_key, self.first_value = (draw(heads, 1, width) for _ in range(2))

    def columns(self, at: Places, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Which token each slot reads, (B or 1, M, kernel), -1 for none; and the place at which its block ends."""
        place = at.key if at.key.dim() == 2 else at.key[None]  # (R, S)
        column, S = torch.arange(place.size(1), device=place.device), place.size(1)
        begins = place % self.factor == 0
        begins[:, :1] = True
        begins[:, 1:] |= place[:, 1:] != place[:, :-1] + 1  # another text, or places that were left out
        number = begins.cumsum(dim=1) - 1
        first = place.new_full((len(place), int(number.max()) + 1), S)  # the column at which each slot begins: (R, M)
        first = first.scatter_reduce(1, number, column.expand_as(number), "amin")
        begin = F.pad(place, (0, 1)).gather(1, first)
        end = torch.where(first < S, begin - begin % self.factor + self.factor - 1, place.max() + self.factor)
        wanted = end[:, :, None] + torch.arange(1 - self.kernel, 1, device=place.device)  # places: (R, M, kernel)
        found = first[:, :, None] + wanted - begin[:, :, None]
        inside = (found >= 0) & (found < S)
        found = found.clamp(0, S - 1)
        exists = inside & (place.gather(1, found.flatten(1)).view(found.shape) == wanted) & (first < S)[:, :, None]
        if mask is not None:
            real = mask[(None,) * (4 - mask.dim())].any(dim=(1, 2))  # (B or 1, S): a token that nobody sees is padding
            rows = max(len(real), len(found))
            found, exists, end = (each.expand(rows, *each.shape[1:]) for each in (found, exists, end))
            exists = exists & real.expand(rows, -1).gather(1, found.flatten(1)).view(found.shape)
        return found.masked_fill(~exists, -1), end

    def compressed(self, x: Tensor, columns: Tensor, weight: Tensor) -> Tensor:
        """The slots of keys or values (B, H, S, K): (B, H, M, K)."""
        (B, H, _, K), (R, M, kernel) = x.shape, columns.shape
        if R == 1:
            near = x[:, :, columns[0].clamp(min=0).flatten()]
        else:
            index = columns.clamp(min=0).flatten(1)[:, None, :, None].expand(B, H, -1, K)
            near = x.gather(2, index)
        near = near.view(B, H, M, kernel, K) * (columns >= 0)[:, None, :, :, None].to(x.dtype)
        return near.flatten(3) @ weight.to(x.dtype)

    def parts(
        self, q: Tensor, k: Tensor, v: Tensor, at: Places, mask: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor | None]]:
        columns, end = self.columns(at, mask)
        k, v = self.compressed(k, columns, self.of_keys), self.compressed(v, columns, self.of_values)
        if self.has_first:
            k, v = (
                torch.cat((one.to(k.dtype).expand(len(k), -1, -1, -1), each), dim=2)
                for one, each in ((self.first_key, k), (self.first_value, v))
            )
        T, front, is_ordered = q.size(2), int(self.has_first), at.causal and at.in_order
        for start in range(0, T, ROWS if is_ordered else T):
            rows = slice(start, start + ROWS if is_ordered else T)
            some = None if mask is None else mask if mask.dim() < 2 or mask.size(-2) == 1 else mask[..., rows, :]
            query = at.query[..., rows]
            count = int((end <= query.max()).sum()) if is_ordered else end.size(-1)  # slots that any of these sees
            seen = self.seen(replace(at, query=query), some, columns[:, :count], end[:, :count])
            yield q[:, :, rows], k[:, :, : front + count], v[:, :, : front + count], seen

    def seen(self, at: Places, mask: Tensor | None, columns: Tensor, end: Tensor) -> Tensor | None:
        """Which slots each query sees, the one in front too: (B or 1, H or 1, T or 1, M)."""
        exists = columns >= 0  # (R, M, kernel)
        seen = exists.any(dim=-1)[:, None, None]  # (R, 1, 1, M)
        if at.causal:
            seen = seen & (end[:, None, None] <= at.query[..., None, :, None])
        sees_any = seen.new_ones(1, 1, 1, 1)
        if mask is not None:
            mask = mask[(None,) * (4 - mask.dim())]
            sees_any = mask.any(dim=-1, keepdim=True)
            if mask.size(2) > 1:
                rows = max(len(mask), len(columns))
                index = columns.clamp(min=0).flatten(1)[:, None, None].expand(rows, mask.size(1), mask.size(2), -1)
                its = mask.expand(rows, -1, -1, -1).gather(3, index).unflatten(-1, columns.shape[1:])
                seen = seen & (its | ~exists[:, None, None]).all(dim=-1)
        if self.has_first:
            sees_any, seen = (each.expand(*shape(seen, sees_any), -1) for each in (sees_any, seen))
            seen = torch.cat((sees_any, seen), dim=-1)
        return None if seen.all() else seen

    def of_tokens(self, weights: Tensor, at: Places, mask: Tensor | None) -> Tensor:
        """The weight of a slot in equal shares on the tokens that it reads."""
        columns, _ = self.columns(at, mask)
        weights, columns = weights[..., int(self.has_first) :], columns[:, : weights.size(-1) - int(self.has_first)]
        exists = (columns >= 0).to(weights.dtype)
        shares = exists / exists.sum(dim=-1, keepdim=True).clamp(min=1)  # (R, M, kernel)
        index = columns.clamp(min=0).flatten(1)[:, None, None].expand(*weights.shape[:3], -1)
        spread = (weights[..., None] * shares[:, None, None]).flatten(3)
        return weights.new_zeros(*weights.shape[:3], at.key.size(-1)).scatter_add(3, index, spread)


def shape(*tensors: Tensor) -> torch.Size:
    """The first three sizes of what they broadcast to."""
    return torch.broadcast_shapes(*(each.shape[:3] for each in tensors))
