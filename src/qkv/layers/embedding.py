"""Token embeddings, and the projection back to the vocabulary that may share their table."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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


class Vocabulary(nn.Module):
    """The pre-softmax projection: hidden (.., D) -> logits (.., V); shares its table with an embedding if given one."""

    def __init__(self, vocab_size: int, d_model: int, *, tied: Embedding | None, bias: bool) -> None:
        super().__init__()
        self.weight = tied.weight if tied else Embedding(vocab_size, d_model).weight
        self.bias = nn.Parameter(self.weight.new_zeros(vocab_size)) if bias else None

    def forward(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weight, self.bias)
