"""Where tokens stand, and the interface of a position encoding: the four places where order can touch a Transformer."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn


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
    same: Tensor | None = None  # (B, T, S): whether a query and a key stand in the same segment of a text
    run: int = 0  # so many of the first queries stand one behind the other, in all rows alike, as all keys do

    @classmethod
    def span(cls, start: int, stop: int, device: torch.device, **more: Any) -> "Places":
        """Queries at start..stop-1 that look back over everything from 0: a whole sentence, or one decoding step."""
        key = torch.arange(stop, device=device)
        return cls(query=key[start:], key=key, run=stop - start, **more)

    @classmethod
    def counted(cls, real: Tensor, queries: int, **more: Any) -> "Places":
        """Places counted in each row from its first real token on: real (B, S), whose last `queries` are queries."""
        key = (real.cumsum(dim=1) - 1).clamp(min=0)
        return cls(query=key[:, key.size(1) - queries :], key=key, **more)

    def over(self, memory: Tensor) -> "Places":
        """The same queries over the keys of a memory (B, S, D)."""
        key = torch.arange(memory.size(1), device=memory.device)
        return replace(self, key=key, causal=False, sentence=None, tree=None, same=None, run=0)

    def behind(self, first: int) -> "Places":
        """The same keys, and the queries without the first ones."""
        same = None if self.same is None else self.same[:, first:]
        return replace(self, query=self.query[..., first:], same=same, run=0)

    @property
    def in_order(self) -> bool:
        """Whether queries and keys are the same tokens, one behind the other: a causal mask is then a triangle."""
        return self.query.dim() == 1 and torch.equal(self.query, self.key) and bool((self.query.diff() > 0).all())

    @property
    def pairs(self) -> tuple[Tensor, Tensor]:
        """The place of the query and of the key: broadcast to (T, S), or to (B, 1, T, S) where rows differ."""
        if self.query.dim() == self.key.dim() == 1:
            return self.query[:, None], self.key
        return self.query[..., None, :, None], self.key[..., None, None, :]

    @property
    def distance(self) -> Tensor:
        """How far before a query each key stands: (T, S), or (B, 1, T, S) where rows differ."""
        query, key = self.pairs
        return query - key


class Sizes(Protocol):
    """What a position encoding or an attention needs to know of the model it serves."""

    @property
    def d_model(self) -> int: ...
    @property
    def n_heads(self) -> int: ...
    @property
    def head_width(self) -> int: ...
    @property
    def max_length(self) -> int: ...


class Position(nn.Module):
    """No positions: a set of tokens, told apart by nothing but what they are (Vaswani et al. 2017, section 3.5).

    How order enters a model: a variant overrides any of these four hooks, the rest do nothing.
    """

    per_layer: ClassVar[bool] = False  # whether each layer has tables of its own
    needs_tree: ClassVar[bool] = False  # whether every sentence must come with its dependency tree
    has_value: bool = False  # whether `value` does anything; the fused kernel has no weights to give it

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()

    def embed(self, x: Tensor, at: Places) -> Tensor:
        """Added to the token embeddings x (B, T, D)."""
        return x

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        """Applied to new queries and keys x (B, H, T, K), which stand at `at.query`."""
        return x

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor | None:
        """Added to the scores of q (B, H, T, K) against k (B, H, S, K); broadcasts to (B, H, T, S)."""
        return None

    def value(self, weights: Tensor, at: Places) -> Tensor | None:
        """Added to the context (B, H, T, K) that the weights (B, H, T, S) give."""
        return None


NO_POSITION = Position()
