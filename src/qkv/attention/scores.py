"""Score functions: how well a key answers a query; chosen by the names in SCORES."""

import math

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.positions import Places, Sizes


class Score(nn.Module):
    """e(q, k) for every query with every key: q (B, H, T, K), k (B, H, S, K) -> (B, H, T, S)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        raise NotImplementedError


class Dot(Score):
    """Luong et al. 2015, "dot": e = q . k."""

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return q @ k.transpose(-1, -2)


class ScaledDot(Score):
    """Vaswani et al. 2017, Eq. 1: e = q . k / sqrt(d_k), so that the variance of e does not grow with d_k."""

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))


class General(Score):
    """Luong et al. 2015, "general": e = q^T W k, a matrix for each head."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        width = sizes.head_width
        weight = torch.empty(sizes.n_heads, width, width)
        self.weight = nn.Parameter(nn.init.normal_(weight, std=1 / width))  # q^T W k varies as one product of q and k

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return (q @ self.weight) @ k.transpose(-1, -2)


class Additive(Score):
    """Bahdanau et al. 2015, section 3.1: e = v^T tanh(W q + U k + b), with W, U, b and v for each head.

    `width` is that of the hidden layer; 0 for the width of a head.
    """

    def __init__(self, sizes: Sizes, *, width: int = 0) -> None:
        super().__init__(sizes)
        heads, inner, hidden = hidden_layer(sizes, width)
        self.of_query, self.of_key = draw(heads, inner, hidden), draw(heads, inner, hidden)
        self.bias = nn.Parameter(torch.zeros(heads, 1, hidden))
        self.v = draw(heads, hidden, 1)

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return compare(q @ self.of_query + self.bias, k @ self.of_key, self.v)


class Concat(Score):
    """Luong et al. 2015, "concat": e = v^T tanh(W [q; k]), with W and v for each head.

    W is used in two halves, W [q; k] = W1 q + W2 k, so that no query is ever copied beside every key. `width` is that
    of the hidden layer; 0 for the width of a head.
    """

    def __init__(self, sizes: Sizes, *, width: int = 0) -> None:
        super().__init__(sizes)
        heads, inner, hidden = hidden_layer(sizes, width)
        self.weight = draw(heads, 2 * inner, hidden)
        self.v = draw(heads, hidden, 1)

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        of_query, of_key = self.weight.chunk(2, dim=1)
        return compare(q @ of_query, k @ of_key, self.v)


class Location(Score):
    """Luong et al. 2015, "location": e = W q, a row of W for each place and head; what the keys are is not read."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.length = sizes.max_length
        self.weight = draw(sizes.n_heads, sizes.head_width, self.length)

    def forward(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        places = int(at.key.max()) + 1
        if places > self.length:
            raise InputError(
                f"{places} keys are more than the {self.length} places that location scores have; "
                "give shorter text, or train with a larger max_length or another score"
            )
        weight = self.weight[:, :, at.key]  # (H, K, S), or (H, K, B, S) where rows differ
        return q @ (weight if at.key.dim() == 1 else weight.movedim(2, 0))


def hidden_layer(sizes: Sizes, width: int) -> tuple[int, int, int]:
    """Heads, the width of each, and the width of the hidden layer that scores them."""
    if width < 0:
        raise InputError(f"a score's hidden layer of width={width} cannot be; give a width, or 0 for that of a head")
    return sizes.n_heads, sizes.head_width, width or sizes.head_width


def draw(heads: int, rows: int, columns: int) -> nn.Parameter:
    """A matrix for each head, which keeps the variance of what it multiplies."""
    return nn.Parameter(torch.randn(heads, rows, columns) * rows**-0.5)


def compare(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v^T tanh(q + k) for every query with every key: (B, H, T, A), (B, H, S, A), (H, A, 1) -> (B, H, T, S)."""
    hidden = torch.tanh(q[..., :, None, :] + k[..., None, :, :])  # (B, H, T, S, A)
    return (hidden @ v[:, None]).squeeze(-1)  # (B, H, T, S)


SCORES: dict[str, type[Score]] = {
    "scaled_dot": ScaledDot,
    "dot": Dot,
    "general": General,
    "additive": Additive,
    "concat": Concat,
    "location": Location,
}
