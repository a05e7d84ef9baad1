"""Head prediction: given a sentence, say for each word which other word governs it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.data import Batch
from qkv.objectives.objective import Asked, Loss
from qkv.positions.tree import pad_trees

NOBODY = -1  # the head of padding


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Dozat & Manning 2017, section 3.1: cross-entropy of each word's head among the root and all words.

    Rows are (sub-word ids, the word from 0 that each belongs to, the head of each word, where 0 is the root).
    """

    def prepare(self, batch: Batch, rng: torch.Generator) -> Asked:
        """Inputs: the ids (B, S), the place of each word's first sub-word (B, T), -1 at padding, and the trees."""
        ids, words, heads = batch.columns
        n_ids, _, n_words = batch.lengths.T
        starts = F.pad(words, (1, 0), value=-1)[:, :-1] != words
        starts &= torch.arange(ids.size(1)) < n_ids[:, None]
        padded = torch.arange(heads.size(1)) >= n_words[:, None]  # (B, T)
        first = torch.full_like(heads, NOBODY)
        first[~padded] = starts.nonzero()[:, 1]
        trees = pad_trees(
            [row[:n].tolist() for row, n in zip(heads, n_words, strict=True)],
            [row[:n].tolist() for row, n in zip(words, n_ids, strict=True)],
        )
        inputs = {"ids": ids, "first": first, "tree": trees}
        return Asked(inputs, heads.masked_fill(padded, NOBODY), int(n_words.sum()))

    def loss(self, outputs: Tensor, asked: Asked) -> Loss:
        """Summed over the real words of labels (B, T); outputs are scores (B, T, 1 + T).

        `accuracy` counts the words whose best head is right: the unlabelled attachment score.
        """
        labels = asked.labels
        total = F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=NOBODY, reduction="sum")
        return Loss(total, {"accuracy": (outputs.argmax(dim=2) == labels).sum()})  # at padding never: no column is -1
