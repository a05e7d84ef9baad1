"""Masks: who may look at whom. True = may look, everywhere in qkv; masks are joined by `&`."""

import torch
from torch import Tensor

from qkv.positions import Places


def padding(ids: Tensor, pad: int) -> Tensor:
    """Every query may look at the real tokens of its sentence: (B, S) ids -> (B, 1, 1, S)."""
    return (ids != pad)[:, None, None, :]


def visible(ids: Tensor, mask: Tensor | None, pad: int) -> Tensor | None:
    """What tokens (B, T) that read both ways may see: by a `mask` of real tokens, (B, T), or of pairs, (B, T, S), or
    else all that is no padding. None if that is everything."""
    if mask is None:
        real = ids != pad
        return None if real.all() else real[:, None, None]
    return mask[:, None, None] if mask.dim() == 2 else mask[:, None]


def causal(at: Places) -> Tensor:
    """A query may look at itself and at what stands before it: (T, S), lower-triangular for a whole sentence.

    Where rows differ: (B, 1, T, S).
    """
    return at.distance >= 0


def prefix(given: Tensor) -> Tensor:
    """Dong et al. 2019 (UniLM), Figure 1: all may look at what is given, the rest also at itself and what is before it.

    given (.., T), True at the first tokens of each row -> (.., T, T).
    """
    place = torch.arange(given.size(-1), device=given.device)
    return given[..., None, :] | (place[:, None] >= place)


# Dong et al. 2019 (UniLM), the authors' code: segments that also say how a text is read. 0 and 1 are BERT's two.
LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE, TARGET = 2, 3, 4, 5


def unified(segments: Tensor) -> Tensor:
    """Dong et al. 2019 (UniLM), Figure 1: one mask for each way to read, by the segment of each token, (.., T).

    BERT's segments and a source see all of their text but a target, which is written: a token of it sees the source,
    itself and what is before it. Left to right a token sees what is before it, right to left what is after: (.., T, T).
    """
    place = torch.arange(segments.size(-1), device=segments.device)
    forwards = prefix((segments != LEFT_TO_RIGHT) & (segments != TARGET))
    is_backwards = (segments == RIGHT_TO_LEFT)[..., None]
    return is_backwards & (place[:, None] <= place) | ~is_backwards & forwards  # ONNX has no `where` of booleans


def permuted(rank: Tensor, *, sees_itself: bool = True) -> Tensor:
    """Yang et al. 2019 (XLNet), Figure 4: a token may look at those whose turn comes before its own, rank (.., T).

    The content stream also `sees_itself`, the query stream does not: (.., T, T).
    """
    query, key = rank[..., :, None], rank[..., None, :]
    return query >= key if sees_itself else query > key


def together(numbers: Tensor) -> Tensor:
    """A token may look at those of its own number, of its document or sentence: (.., T) -> (.., T, T)."""
    return numbers[..., :, None] == numbers[..., None, :]


BLOCKED, RANDOM, WINDOW, GLOBAL = range(4)


def bigbird_table(
    blocks: int, *, heads: int = 1, window: int = 3, first: int = 1, last: int = 1, random: int, rng: torch.Generator
) -> Tensor:
    """Zaheer et al. 2020, section 2: the blocks that each block of tokens may look at, (H, blocks, n), -1 for none.

    The `first` and `last` blocks, which all look at; of the others the `window` around a block, and `random` ones that
    are drawn for each head, without one twice. (The first and the last blocks themselves look at all: not said here.)
    """
    place, middle = (
        torch.arange(blocks),
        max(first, blocks - last),
    )  # of the blocks from `first` to `middle`, all is told
    ends = torch.cat((place[:first], place[middle:])).expand(blocks, -1)
    around = place[:, None] + torch.arange(window) - window // 2
    around = around.masked_fill((around < first) | (around >= middle), -1)
    begin, end = ((place + side).clamp(first, middle) for side in (-(window // 2), window // 2 + 1))  # of the window
    free = middle - first - (end - begin)  # (blocks,)
    drawn = torch.empty(heads, blocks, 0, dtype=torch.long)
    for count in range(random):
        rest = (free - count).clamp(min=1)
        one = (torch.rand(heads, blocks, generator=rng, dtype=torch.float64) * rest).long()
        for other in drawn.sort(dim=-1).values.unbind(-1):  # numbers among those that are not drawn yet
            one = one + (one >= other)
        drawn = torch.cat((drawn, one[..., None]), dim=-1)
    chosen = drawn + first
    chosen = chosen + (end - begin)[:, None] * (chosen >= begin[:, None])
    chosen = chosen.masked_fill(torch.arange(random) >= free[:, None], -1)
    return torch.cat((*(each.expand(heads, -1, -1) for each in (ends, around)), chosen), dim=-1)


def bigbird_blocks(
    blocks: int, *, heads: int = 1, window: int = 3, first: int = 1, last: int = 1, random: int, rng: torch.Generator
) -> Tensor:
    """Which block of tokens may look at which, and why; BLOCKED = 0 for may not: (H, blocks, blocks)."""
    table = bigbird_table(blocks, heads=heads, window=window, first=first, last=last, random=random, rng=rng)
    ends = table.size(-1) - window - random
    why = torch.tensor([GLOBAL] * ends + [WINDOW] * window + [RANDOM] * random).expand_as(table)
    kinds = torch.full((heads, blocks, blocks + 1), BLOCKED).scatter(2, table.where(table >= 0, blocks), why)[..., :-1]
    kinds[:, :first], kinds[:, max(first, blocks - last) :] = GLOBAL, GLOBAL
    return kinds


def from_blocked(mask: Tensor) -> Tensor:
    """A mask in which True or 1 means "blocked" (torch's key_padding_mask, pictures where 0 = useful) as ours."""
    return mask == torch.zeros((), dtype=mask.dtype, device=mask.device)
