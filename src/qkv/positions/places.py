"""What an attention is told of its queries and keys: where they stand, and what else is known of them."""

from dataclasses import dataclass, field, replace
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

    query: Tensor  # (T,)
    key: Tensor  # (S,)
    causal: bool = False  # whether a query sees only itself and what stands before it
    sentence: Tensor | None = None  # (B, S): the number of the sentence that each token of a text belongs to
    tree: Tree | None = None
    choices: list[Any] = field(default_factory=list)  # what hard attentions have drawn: see attention.hard

    @classmethod
    def span(cls, start: int, stop: int, device: torch.device, **more: Any) -> "Places":
        """Queries at start..stop-1 that look back over everything from 0: a whole sentence, or one decoding step."""
        key = torch.arange(stop, device=device)
        return cls(query=key[start:], key=key, **more)

    def over(self, memory: Tensor) -> "Places":
        """The same queries over the keys of a memory (B, S, D)."""
        key = torch.arange(memory.size(1), device=memory.device)
        return replace(self, key=key, causal=False, sentence=None, tree=None)
