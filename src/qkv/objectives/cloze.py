"""Cloze reading: given a document and a sentence with a hole, point at the missing word in the document."""

from dataclasses import dataclass

import torch

from qkv.data import Batch
from qkv.models.reader import Reading
from qkv.objectives.objective import Asked, Loss


@dataclass(frozen=True, kw_only=True)
class Cloze:
    """Cui et al. 2017, section 3: minimise -log P(answer), where P sums the attention on every place of a word.

    Rows are (document, question, candidates, answer): word ids all of them.
    """

    def prepare(self, batch: Batch, rng: torch.Generator) -> Asked:
        document, question, candidates, answer = batch.columns
        return Asked({"document": document, "question": question}, (candidates, answer), len(batch))

    def loss(self, outputs: Reading, asked: Asked) -> Loss:
        """Summed over the questions; `accuracy` counts those whose most probable candidate is the answer."""
        candidates, answer = asked.labels  # (B, C), (B, 1)
        p = outputs.probability(answer)  # (B, 1)
        total = -p.clamp(min=torch.finfo(p.dtype).tiny).log().sum()  # a weight so small that it is 0 has no log
        best = outputs.probability(candidates).argmax(dim=1, keepdim=True)
        return Loss(total, {"accuracy": (candidates.gather(1, best) == answer).sum()})
