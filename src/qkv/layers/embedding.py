"""Token embeddings, and the projection back to the vocabulary that may share their table."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.layers.stack_config import ACTIVATIONS, Activation

NEVER = -1e4  # a bias that leaves a token no probability in float32, and that float16 still holds


class Embedding(nn.Module):
    """Vaswani et al. 2017, section 3.4: a table of vectors, multiplied by sqrt(d_model) (or `scale`) when read.

    Drawn from N(0, 1/d_model), so that what is read has unit variance (tensor2tensor).
    """

    def __init__(self, vocab_size: int, d_model: int, *, scale: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)
        self.scale = math.sqrt(d_model) if scale is None else scale

    def forward(self, ids: Tensor) -> Tensor:
        vectors = F.embedding(ids, self.weight)  # (B, T) -> (B, T, D)
        return vectors if self.scale == 1 else vectors * self.scale


class Inputs(Embedding):
    """Devlin et al. 2019 (BERT), Figure 2: the vector of a token and that of the segment it stands in.

    Positions come next, a norm and dropout: they are the stack's, which owns the position.
    """

    def __init__(self, vocab_size: int, d_model: int, *, segments: int, scale: float | None = 1.0) -> None:
        super().__init__(vocab_size, d_model, scale=scale)
        self.segments = nn.Parameter(torch.randn(segments, d_model) * d_model**-0.5) if segments else None

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        """Without `segments` (B, T), or where there is one alone, all tokens stand in the first."""
        if self.segments is None:
            return super().forward(ids)
        if segments is None or len(self.segments) == 1:
            return super().forward(ids) + self.segments[0]  # (B, T, D)
        return super().forward(ids) + F.embedding(segments, self.segments)


class Projection(nn.Module):
    """The pre-softmax projection: hidden (.., D) -> logits (.., V); shares its table with an embedding if given one.

    The ids `silent` get no probability at all: they stand for tokens that whoever trained the table did not have.
    """

    def __init__(
        self, vocab_size: int, d_model: int, *, tied: Embedding | None, bias: bool, silent: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.weight = tied.weight if tied else Embedding(vocab_size, d_model).weight
        self.bias: Tensor | None
        shift = self.weight.new_zeros(vocab_size)
        if silent:
            shift[list(silent)] = NEVER
            self.register_buffer("bias", shift, persistent=False)  # nothing to learn
        else:
            self.register_parameter("bias", nn.Parameter(shift) if bias else None)

    def ready(self, hidden: Tensor) -> Tensor:
        """What the table is multiplied with: a loss asks for it at a few places, and projects a few rows at a time."""
        return hidden

    def forward(self, hidden: Tensor) -> Tensor:
        return F.linear(self.ready(hidden), self.weight, self.bias)


class NoProjection(nn.Module):
    """In the place of a projection, where a model has none."""

    def ready(self, hidden: Tensor) -> Tensor:
        raise InputError(
            "this model has nothing that predicts words; take one with a language-model head, or train one with "
            "--task fill --model.predicts true"
        )

    forward = ready


class Prediction(Projection):
    """Devlin et al. 2019 (BERT), the authors' code: logits = E LayerNorm(f(W h + b)) + c, E the table of tokens."""

    def __init__(self, vocab_size: int, d_model: int, *, tied: Embedding, activation: Activation, eps: float) -> None:
        super().__init__(vocab_size, d_model, tied=tied, bias=True)
        self.dense, self.norm = nn.Linear(d_model, d_model), nn.LayerNorm(d_model, eps)
        self.activation = ACTIVATIONS[activation]

    def ready(self, hidden: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(hidden)))
