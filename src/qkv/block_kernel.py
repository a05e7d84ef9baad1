"""Attention in which each block of queries sees a few blocks of keys: time and memory grow with the length alone."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

CELLS = 2**17  # scores that are computed at a time: what is made of them on the way stays in the cache

LARGE = 2**20  # numbers: 4 MB


class Blocks(NamedTuple):
    """Which blocks of keys each block of queries sees. Where sizes may be 1, they are the same for all."""

    table: Tensor  # (B or 1, H or 1, N, n): the numbers of n blocks; one that is named twice counts twice
    seen: Tensor | None = None  # (B or 1, H or 1, N, n * block): False at keys that no query sees; None for all
    band: Tensor | None = None  # (block, n * block): what each query of a block sees of them; None for all
    wide: Tensor | None = None  # (B or 1, G): the queries that see all keys instead,
    real: Tensor | None = None  # (B or 1, H or 1, T): but these; None for all


Group = tuple[slice, slice]  # some rows and heads


class Chunk(NamedTuple):
    """Some blocks of queries beside the keys and values that they see; P = rows * heads * blocks of the piece."""

    tokens: slice  # of its group
    which: Tensor  # (P * n,): of the blocks of keys, among those of its group
    q: Tensor  # (P, block, K)
    k: Tensor  # (P, n * block, K)
    v: Tensor
    weights: Tensor  # (P, block, n * block)
    dropped: Tensor  # the weights after dropout,
    kept: Tensor | None  # and what it multiplied them with


def groups(q: Tensor, blocks: Blocks) -> Iterator[tuple[Group, int]]:
    """Rows and heads that are read together, and how many blocks of queries of each at a time."""
    (B, H, T, _), (N, n) = q.shape, blocks.table.shape[2:]
    many = max(1, CELLS // (n * (T // N) ** 2))
    rows, heads = max(1, many // (N * H)), min(H, max(1, many // N))
    for b, h in itertools.product(range(0, B, rows), range(0, H, heads)):
        yield (slice(b, b + rows), slice(h, h + heads)), many


def is_large(x: Tensor) -> bool:
    """Whether a group is one row and head, and that so long that no copy of it is made, though it takes more time."""
    return x.shape[:2] == (1, 1) and x.numel() >= LARGE


def part(x: Tensor, group: Group) -> Tensor:
    """What a group has of a tensor (B or 1, H or 1, ..)."""
    return x[group[0] if x.size(0) > 1 else slice(None), group[1] if x.size(1) > 1 else slice(None)]


def pieces(
    q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, group: Group, many: int, dropout: float, rng: torch.Generator
) -> Iterator[Chunk]:
    """One after another, always in the same order: a backward pass makes anew what the forward pass made."""
    (rows, heads, T, K), (N, n) = q[group].shape, blocks.table.shape[2:]
    R, block, wide = rows * heads, T // N, torch.promote_types(q.dtype, torch.float32)
    bias = None if blocks.band is None else q.new_zeros((), dtype=wide).where(blocks.band, -torch.inf)
    table, seen = part(blocks.table, group), None if blocks.seen is None else part(blocks.seen, group)
    near = [each[group].reshape(R * N, block, K) for each in (k, v)]
    near = [each if is_large(k[group]) else each.reshape(R * N, block * K) for each in near]
    first = N * torch.arange(R, device=q.device)[:, None]  # the number of the first block of each row and head
    for start in range(0, N, many):
        here, tokens = slice(start, start + many), slice(start * block, (start + many) * block)
        which = (table[:, :, here].expand(rows, heads, -1, n).reshape(R, -1) + first).flatten()
        own = q[group][:, :, tokens].reshape(-1, block, K).to(wide)
        its_k, its_v = (each.index_select(0, which).view(len(own), -1, K).to(wide) for each in near)
        scores = own.new_empty(len(own), block, n * block)
        scores.baddbmm_(own, its_k.mT, beta=0, alpha=K**-0.5)
        if bias is not None:
            scores += bias
        if seen is not None and not (its := seen[:, :, here]).all():
            scores.masked_fill_(~its.expand(rows, heads, -1, -1).reshape(len(own), 1, -1), -torch.inf)
            weights = torch.softmax(scores, dim=-1, out=scores).nan_to_num_()  # a row of -inf alone
        else:
            weights = torch.softmax(scores, dim=-1, out=scores)
        kept = torch.empty_like(weights).bernoulli_(1 - dropout, generator=rng) / (1 - dropout) if dropout else None
        dropped = weights if kept is None else weights * kept
        yield Chunk(tokens, which, own, its_k, its_v, weights, dropped, kept)
        del own, its_k, its_v, scores, weights, dropped, kept  # before the next is made


def wide_queries(q: Tensor, blocks: Blocks, group: Group) -> tuple[Tensor, Tensor | None] | None:
    """Where in a group the queries stand that see all keys, (.., G, K), and what keys these are, (.., 1, T)."""
    if blocks.wide is None:
        return None
    index = blocks.wide[group[0] if len(blocks.wide) > 1 else slice(None), None, :, None]
    real = None if blocks.real is None else part(blocks.real, group)[:, :, None]
    return index.expand(*q[group].shape[:2], -1, q.size(-1)), real


def add_all_gradients(
    q: Tensor, k: Tensor, v: Tensor, grad: Tensor, index: Tensor, real: Tensor | None, sums: Sequence[Tensor]
) -> Tensor:
    """The gradients of the queries at `index`, which see all keys; what k and v get through them is added to `sums`.

    A few queries at a time: no more scores are held than of other pieces.
    """
    wide, scale, found = sums[0].dtype, q.size(-1) ** -0.5, []
    (of_k, of_v), (k, v) = (each.flatten(0, 1) for each in sums), (each.flatten(0, 1).to(wide) for each in (k, v))
    for some in index.split(max(1, CELLS // k.size(0) // k.size(1)), dim=2):  # (.., some of G, K)
        own, here = (each.gather(2, some).flatten(0, 1).to(wide) for each in (q, grad))
        scores = (own @ k.mT).mul_(scale).view(*some.shape[:3], -1)
        if real is not None:
            scores.masked_fill_(~real, -torch.inf)
        weights = torch.softmax(scores, dim=-1, out=scores).nan_to_num_().flatten(0, 1)  # (P, some of G, T)
        of_v.baddbmm_(weights.mT, here)
        of_scores = torch._softmax_backward_data(here @ v.mT, weights, -1, wide)
        of_k.baddbmm_(of_scores.mT, own, alpha=scale)
        found.append((of_scores @ k).mul_(scale).view(some.shape))
        del scores, weights, of_scores
    return torch.cat(found, dim=2).to(q.dtype)


class _BlockAttention(torch.autograd.Function):
    """Nothing is kept for the backward pass but q, k and v."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, dropout: float) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.blocks, ctx.dropout, ctx.seed = blocks, dropout, int(torch.randint(2**62, ())) if dropout else 0
        context, rng = torch.empty_like(q), torch.Generator(q.device).manual_seed(ctx.seed)
        for group, many in groups(q, blocks):
            for piece in pieces(q, k, v, blocks, group, many, dropout, rng):
                here = context[group][:, :, piece.tokens]
                here.copy_(torch.bmm(piece.dropped, piece.v).view(here.shape))
                del piece
            if (apart := wide_queries(q, blocks, group)) is not None:
                index, real = apart
                all_seen = F.scaled_dot_product_attention(q[group].gather(2, index), k[group], v[group], real)
                context[group].scatter_(2, index, all_seen)
        return context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        blocks, rng = ctx.blocks, torch.Generator(q.device).manual_seed(ctx.seed)
        K, N, wide = q.size(-1), blocks.table.size(2), torch.promote_types(q.dtype, torch.float32)
        of_q, of_k, of_v = (torch.empty_like(each) for each in (q, k, v))
        zeros = partial(torch.zeros, device=q.device)
        for group, many in groups(q, blocks):
            apart, narrow = wide_queries(q, blocks, group), None
            is_view = q.dtype == wide and is_large(of_k[group])
            sums = [each[group].zero_() if is_view else zeros(each[group].shape, dtype=wide) for each in (of_k, of_v)]
            if apart is not None:
                narrow = q.new_ones(*q[group].shape[:3], 1).scatter_(2, apart[0][..., :1], 0)
                its_q = add_all_gradients(q[group], k[group], v[group], grad[group], *apart, sums)
            one = (q.size(2) // N, K) if is_view else (q.size(2) // N * K,)  # a block; in one dimension it is faster
            flat_k, flat_v = (each.view(-1, *one) for each in sums)
            for piece in pieces(q, k, v, blocks, group, many, ctx.dropout, rng):
                here = grad[group][:, :, piece.tokens]
                here = here if narrow is None else here * narrow[:, :, piece.tokens]
                here, size = here.reshape(piece.q.shape).to(wide), (len(piece.which), *one)
                flat_v.index_add_(0, piece.which, torch.bmm(piece.dropped.mT, here).view(size))
                of_weights = torch.bmm(here, piece.v.mT)
                if piece.kept is not None:
                    of_weights *= piece.kept
                of_scores = torch._softmax_backward_data(of_weights, piece.weights, -1, wide)
                into = of_q[group][:, :, piece.tokens]
                into.copy_(torch.bmm(of_scores, piece.k).mul_(K**-0.5).view(into.shape))
                flat_k.index_add_(0, piece.which, torch.bmm(of_scores.mT, piece.q).view(size), alpha=K**-0.5)
                del piece, here, of_weights, of_scores
            if apart is not None:
                of_q[group].scatter_(2, apart[0], its_q)
            if not is_view:
                of_k[group], of_v[group] = sums
        return of_q, of_k, of_v, None, None


def block_attention(q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, dropout: float = 0.0) -> Tensor:
    """Softmax(q k^T / sqrt(K)) v, where each block of queries sees a few blocks of keys: a cost that grows with the
    length. q, k and v are (B, H, N * block, K); a query that sees nothing gives zeros. `wide` has no dropout."""
    return cast(Tensor, _BlockAttention.apply(q, k, v, blocks, dropout))  # type: ignore[no-untyped-call]
