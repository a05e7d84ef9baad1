"""What an attention is told of its queries and keys: where they stand, and what else is known of them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """The dependency trees of a batch of sentences: one tree position for each token."""

    depth: Tensor  # (B, T): edges to the root
    relation: Tensor  # (B, T, S): signed structural distance of a key from a query

    def to(self, device: torch.device | str) -> "Tree":
        return Tree(self.depth.to(device), self.relation.to(device))


@dataclass(frozen=True)
class Places:
    """Where the queries and the keys of one attention stand in their sentence, counted from 0."""

    query: Tensor  # (T,), or (B, T) where rows differ
    key: Tensor  # (S,), or (B, S)
    causal: bool = False  # whether a query sees only itself and what stands before it
    sentence: Tensor | None = None  # (B, S): the number of the sentence that each token of a text belongs to
    tree: Tree | None = None

    @classmethod
    def span(cls, start: int, stop: int, device: torch.device, **more: Any) -> "Places":
        """Queries at start..stop-1 that look back over everything from 0: a whole sentence, or one decoding step."""
        key = torch.arange(stop, device=device)
        return cls(query=key[start:], key=key, **more)

    @classmethod
    def counted(cls, real: Tensor, queries: int, **more: Any) -> "Places":
        """Places counted in each row from its first real token on: real (B, S), whose last `queries` are queries."""
        key = (real.cumsum(dim=1) - 1).clamp(min=0)
        return cls(query=key[:, key.size(1) - queries :], key=key, **more)

    @property
    def in_order(self) -> bool:
        """Whether each query stands behind the one before it, alike in all rows: a mask of places is a triangle."""
        return self.query.dim() == 1 and bool((self.query.diff() > 0).all())

    @property
    def distance(self) -> Tensor:
        """How far before a query each key stands: (T, S), or (B, 1, T, S) where rows differ."""
        if self.query.dim() == self.key.dim() == 1:
            return self.query[:, None] - self.key
        query, key = (place if place.dim() == 2 else place[None] for place in (self.query, self.key))
        return query[:, None, :, None] - key[:, None, None, :]

    def over(self, memory: Tensor) -> "Places":
        """The same queries over the keys of a memory (B, S, D)."""
        key = torch.arange(memory.size(1), device=memory.device)
        return replace(self, key=key, causal=False, sentence=None, tree=None)
