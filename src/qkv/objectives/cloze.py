"""Cloze reading: given a document and a sentence with a hole, point at the missing word in the document."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.models.reader import Reading
from qkv.objectives.objective import Loss


@dataclass(frozen=True)
class ClozeBatch:
    """Word ids, all padded with 0: documents (B, S), questions (B, T), candidates (B, C) and answers (B,)."""

    document: Tensor
    question: Tensor
    candidates: Tensor
    answer: Tensor
    pairs: NDArray[np.int64]  # the numbers of the questions

    def to(self, device: torch.device | str) -> "ClozeBatch":
        document, question, candidates = (x.to(device) for x in (self.document, self.question, self.candidates))
        return ClozeBatch(document, question, candidates, self.answer.to(device), self.pairs)


@dataclass(frozen=True, kw_only=True)
class Cloze:
    """Cui et al. 2017, section 3: minimise -log P(answer), where P sums the attention on every place of a word."""

    def prepare(self, batch: ClozeBatch) -> tuple[tuple[Tensor, Tensor], ClozeBatch]:
        """((documents, questions), the batch with its candidates and answers)."""
        return (batch.document, batch.question), batch

    def count(self, labels: ClozeBatch) -> int:
        """How many questions are asked."""
        return len(labels.answer)

    def loss(self, outputs: Reading, labels: ClozeBatch) -> Loss:
        """Summed over the questions; `accuracy` counts those whose most probable candidate is the answer."""
        p = outputs.probability(labels.answer[:, None])  # (B, 1)
        total = -p.clamp(min=torch.finfo(p.dtype).tiny).log().sum()  # a weight so small that it is 0 has no log
        best = outputs.probability(labels.candidates).argmax(dim=1, keepdim=True)
        right = (labels.candidates.gather(1, best).squeeze(1) == labels.answer).sum()
        return Loss(total, {"accuracy": right}, self.count(labels))
