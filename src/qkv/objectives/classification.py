"""Classification: given a document, name its class."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data.examples import Ints
from qkv.objectives.objective import Loss


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents, padded with 0, their classes, and the numbers by which to find them again."""

    documents: Tensor  # (B, N, S): the word ids of each sentence
    labels: Tensor  # (B,)
    pairs: Ints  # (B,)

    def to(self, device: torch.device) -> "DocumentBatch":
        return DocumentBatch(self.documents.to(device), self.labels.to(device), self.pairs)


@dataclass(frozen=True, kw_only=True)
class Classification:
    """Yang et al. 2016, Eq. 12: L = - sum over documents of log p(class), p = softmax(W v + b)."""

    label_smoothing: float = setting(0.0, "probability mass taken from the right word and spread over the others")

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def prepare(self, batch: DocumentBatch) -> tuple[tuple[Tensor], Tensor]:
        return (batch.documents,), batch.labels

    def count(self, labels: Tensor) -> int:
        return len(labels)

    def loss(self, outputs: Tensor, labels: Tensor) -> Loss:
        """Logits (B, n_classes) against labels (B,): summed over documents, and how many of them are right."""
        total = F.cross_entropy(outputs, labels, reduction="sum", label_smoothing=self.label_smoothing)
        return Loss(total, {"accuracy": (outputs.argmax(dim=1) == labels).sum()}, len(labels))
