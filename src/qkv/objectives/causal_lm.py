"""Language modelling: given a text so far, predict its next token."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.reinforce import reinforce
from qkv.objectives.smoothing import chunked_cross_entropy, negative_log_likelihood
from qkv.text.tokenizer import EOS, PAD


@dataclass(frozen=True, kw_only=True)
class CausalLM(Usual):
    """Radford et al. 2018, Eq. 1: L = - sum_i log p(u_i | u_1 .. u_i-1).

    The first column of a batch is windows of running text, or texts of their own. In a window one document follows
    another after its end </s>; with `apart`, no token sees what stands before its own document.
    """

    label_smoothing: float = setting(0.0, "probability mass taken from the right word and spread over the others")
    apart: bool = setting(False, "tokens of a window see nothing of the documents before their own")

    turn = 1

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """The model reads u_0 .. u_n-1 and is asked for u_1 .. u_n; padding is not asked for.

        Beside another objective it reads what that one does, u_n too.
        """
        whole = inputs.get("ids", batch.columns[0])
        ids, labels = whole if inputs else whole[:, :-1], whole[:, 1:]
        apart = {"documents": documents(ids)} if self.apart else {}
        return Asked({"ids": ids, **apart}, labels, int((labels != PAD).sum()))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over the real tokens of labels (B, T)."""
        labels, table = asked.labels, outputs.projection
        given = outputs.hidden[:, : labels.size(1)].flatten(0, 1), table.weight, table.bias, labels.flatten()
        if self.label_smoothing:
            total, likelihood = chunked_cross_entropy(*given, smoothing=self.label_smoothing, form="fairseq", pad=PAD)
        else:
            total, likelihood = negative_log_likelihood(*given, pad=PAD)
        if getattr(outputs, "choices", ()):
            total = total + reinforce(outputs, labels, PAD)
        return Loss(total, {"likelihood": likelihood})


def documents(ids: Tensor) -> Tensor:
    """The number of the document that each token (B, T) belongs to, counted in its row; </s> ends one, as its own last
    token."""
    ends = (ids == EOS).long()
    return ends.cumsum(dim=1) - ends
