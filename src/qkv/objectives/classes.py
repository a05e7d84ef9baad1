"""Classes: given a text, name its class."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.objectives.objective import Asked, Loss
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Yang et al. 2016, Eq. 12: L = - sum over texts of log p(class), p = softmax(W v + b).

    Rows are (ids, label), or (ids, the length of each sentence, label) where a model reads sentences apart.
    """

    label_smoothing: float = setting(0.0, "probability mass taken from the right class and spread over the others")

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def prepare(self, batch: Batch, rng: torch.Generator) -> Asked:
        *text, labels = batch.columns
        inputs = {"ids": text[0]} if len(text) == 1 else {"words": by_sentence(batch)}
        return Asked(inputs, labels[:, 0], len(batch))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Logits (B, n) against labels (B,): summed over texts, and how many of them are right."""
        logits: Tensor = getattr(outputs, "answer", outputs)
        total = F.cross_entropy(logits, asked.labels, reduction="sum", label_smoothing=self.label_smoothing)
        return Loss(total, {"accuracy": (logits.argmax(dim=1) == asked.labels).sum()})


def by_sentence(batch: Batch) -> Tensor:
    """Rows of ids (B, T) and of sentence lengths (B, N) -> the ids of each sentence (B, N, S), padded."""
    ids, lengths = batch.columns[:2]
    ends = lengths.cumsum(dim=1)[:, :, None]  # (B, N, 1)
    place = torch.arange(int(lengths.max())) + ends - lengths[:, :, None]  # (B, N, S)
    words = ids.gather(1, place.clamp(max=ids.size(1) - 1).flatten(1)).view(place.shape)
    return words.masked_fill(place >= ends, PAD)
