"""The interface of a position encoding: the places where order can touch a Transformer."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


class Sizes(Protocol):
    """What a position encoding needs to know of the model it serves."""

    @property
    def d_model(self) -> int: ...
    @property
    def n_heads(self) -> int: ...
    @property
    def max_length(self) -> int: ...


@dataclass(frozen=True)
class Places:
    """Where the queries and the keys of one attention stand in their sentence, counted from 0."""

    query: Tensor  # (T,)
    key: Tensor  # (S,)

    @classmethod
    def span(cls, start: int, stop: int, device: torch.device) -> "Places":
        """Queries at start..stop-1 that look back over everything from 0: a whole sentence, or one decoding step."""
        key = torch.arange(stop, device=device)
        return cls(query=key[start:], key=key)


class Position(nn.Module):
    """How order enters the model: a variant overrides any of these, the rest do nothing."""

    def embed(self, x: Tensor, at: Places) -> Tensor:
        """Added to the token embeddings x (B, T, D)."""
        return x

    def rotate(self, x: Tensor, at: Places) -> Tensor:
        """Applied to new queries and keys x (B, H, T, K), which stand at `at.query`."""
        return x

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor | None:
        """Added to the scores of q (B, H, T, K) against k (B, H, S, K); broadcasts to (B, H, T, S)."""
        return None


NO_POSITION = Position()
