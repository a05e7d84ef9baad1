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
    return torch.where((segments == RIGHT_TO_LEFT)[..., None], place[:, None] <= place, forwards)


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


def bigbird_blocks(blocks: int, *, random: int, rng: torch.Generator) -> Tensor:
    """Zaheer et al. 2020, section 2: which block of tokens may look at which, and why; BLOCKED = 0 for may not.

    The first and the last block look at all and are looked at by all; every other looks at itself, at its neighbours,
    and at `random` others that are drawn once: (blocks, blocks).
    """
    place = torch.arange(blocks)
    kinds = ((place[:, None] - place).abs() <= 1).long() * WINDOW
    is_global = (place == 0) | (place == blocks - 1)
    kinds[is_global[:, None] | is_global] = GLOBAL
    for row in kinds:
        free = (row == BLOCKED).nonzero()[:, 0]
        row[free[torch.randperm(len(free), generator=rng)[:random]]] = RANDOM
    return kinds


def from_blocked(mask: Tensor) -> Tensor:
    """A mask in which True or 1 means "blocked" (torch's key_padding_mask, pictures where 0 = useful) as ours."""
    return mask == torch.zeros((), dtype=mask.dtype, device=mask.device)
