"""Head prediction: given a sentence, say for each word which other word governs it."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from qkv.objectives.objective import Loss
from qkv.positions import Tree

NOBODY = -1  # the head of padding


@dataclass(frozen=True)
class HeadsBatch:
    """Sentences as sub-word ids (B, S), the place of each word's first one (B, T), and each word's head (B, T).

    Heads count words from 1; 0 is the root, -1 stands at padding. `tree` is there if the positions need it.
    """

    ids: Tensor
    first: Tensor
    heads: Tensor
    tree: Tree | None
    pairs: NDArray[np.int64]  # the numbers of the sentences

    def to(self, device: torch.device | str) -> "HeadsBatch":
        tree = self.tree and Tree(self.tree.depth.to(device), self.tree.relation.to(device))
        return HeadsBatch(self.ids.to(device), self.first.to(device), self.heads.to(device), tree, self.pairs)


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Dozat & Manning 2017, section 3.1: cross-entropy of each word's head among the root and all words."""

    def prepare(self, batch: HeadsBatch) -> tuple[tuple[Tensor, Tensor, Tree | None], Tensor]:
        """((ids, first sub-words, trees), heads)."""
        return (batch.ids, batch.first, batch.tree), batch.heads

    def count(self, labels: Tensor) -> int:
        """How many real words are asked for."""
        return int((labels != NOBODY).sum())

    def loss(self, outputs: Tensor, labels: Tensor) -> Loss:
        """Summed over the real words of labels (B, T); outputs are scores (B, T, 1 + T).

        `accuracy` counts the words whose best head is right: the unlabelled attachment score.
        """
        total = F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=NOBODY, reduction="sum")
        right = (outputs.argmax(dim=2) == labels).sum()  # at padding never: no column is -1
        return Loss(total, {"accuracy": right}, self.count(labels))
