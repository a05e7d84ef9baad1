"""Masks: who may look at whom. True = may look, everywhere in qkv; masks are joined by `&`."""

import torch
from torch import Tensor

from qkv.positions import Places


def padding(ids: Tensor, pad: int) -> Tensor:
    """Every query may look at the real tokens of its sentence: (B, S) ids -> (B, 1, 1, S)."""
    return (ids != pad)[:, None, None, :]


def causal(at: Places) -> Tensor:
    """A query may look at itself and at what stands before it: (T, S), lower-triangular for a whole sentence.

    Where rows differ: (B, 1, T, S).
    """
    return at.distance >= 0


def sentence_numbers(ids: Tensor, ends: list[int]) -> Tensor:
    """The number of the sentence that each token of a text belongs to; `ends` are the ids that end one: (B, S)."""
    is_end = torch.isin(ids, torch.tensor(ends, device=ids.device)).long()
    return is_end.cumsum(dim=1) - is_end


def from_blocked(mask: Tensor) -> Tensor:
    """A mask in which True or 1 means "blocked" (torch's key_padding_mask, pictures where 0 = useful) as ours."""
    return mask == torch.zeros((), dtype=mask.dtype, device=mask.device)
