"""Attention by torch's FlexAttention, on a GPU: a kernel compiled for a rule, which skips blocks that none sees."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # row, head, query, key: may it look?


def serves(q: Tensor) -> bool:
    """Whether FlexAttention is used for such queries: its fast form is for GPUs, and needs heads of some width."""
    return q.is_cuda and q.size(-1) >= 16


def by_rule(q: Tensor, k: Tensor, v: Tensor, rule: Rule, *, rows: bool, heads: bool) -> Tensor:
    """q, k, v (B, H, T, K) -> the context; a row that sees nothing gives zeros. `rows` and `heads` say whether the rule
    differs between them. On a CPU, where nothing is compiled, it makes the whole (T, S) matrix: for tests."""
    mask, attend = kernels(q.is_cuda)
    seen = mask(rule, len(q) if rows else None, q.size(1) if heads else None, q.size(2), k.size(2), device=q.device)
    context: Tensor = attend(q, k, v, block_mask=seen)
    return context


@cache
def kernels(is_compiled: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What makes a mask of blocks out of a rule, and what attends under it. Imported here: it brings a compiler."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if not is_compiled:
        return create_block_mask, flex_attention
    return torch.compile(create_block_mask), torch.compile(flex_attention)  # so no (T, S) matrix is made
