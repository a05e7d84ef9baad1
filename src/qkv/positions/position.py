"""The interface of a position encoding: the four places where order can touch a Transformer."""

from typing import ClassVar, Protocol

from torch import Tensor, nn

from qkv.positions.places import Places


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
