"""A text that is written after another by a model of one stack: a document, and then its summary."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.reinforce import reinforce
from qkv.objectives.smoothing import chunked_cross_entropy
from qkv.text.tokenizer import EOS, PAD


@dataclass(frozen=True, kw_only=True)
class Continuation(Usual):
    """Liu et al. 2018, section 4.2.3: two texts as one, m_1 .. m_n <s> y_1 .. y_m </s>, each token of which a decoder
    predicts by those before it.

    Rows are (m_1 .. m_n </s>, <s> y_1 .. y_m </s>). Differs: only y_1 .. y_m </s> are asked for, unless `whole`.
    """

    label_smoothing: float = setting(0.1, "probability mass taken from the right word and spread over the others")
    whole: bool = setting(False, "ask for the words of the first text too, as the paper does")

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        ids, is_second = joined(*batch.columns)
        labels = ids[:, 1:] if self.whole else ids[:, 1:].masked_fill(~is_second[:, 1:], PAD)
        return Asked({"ids": ids[:, :-1]}, labels, int((labels != PAD).sum()), read=int((ids != PAD).sum()))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over what is asked for of labels (B, T); nothing else is projected to the vocabulary."""
        at, table = asked.labels != PAD, outputs.projection
        given = outputs.hidden[at], table.weight, table.bias, asked.labels[at]
        total, likelihood = chunked_cross_entropy(*given, smoothing=self.label_smoothing, form="fairseq", pad=PAD)
        if outputs.choices:
            total = total + reinforce(outputs, asked.labels, PAD)
        return Loss(total, {"likelihood": likelihood})


def joined(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Texts (B, S) with their ends and texts (B, T) from <s> to </s> as one each, with <s> between them; and where the
    words of the second stand, its end too: both (B, ..). Padding moves to the right."""
    ids = torch.cat((first.masked_fill(first == EOS, PAD), second), dim=1)
    is_second = torch.zeros_like(ids, dtype=torch.bool)
    is_second[:, first.size(1) + 1 :] = True
    return padded_right(ids, is_second)


def padded_right(ids: Tensor, marks: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (B, T) and marks of them, without the padding that stands between."""
    order = (ids == PAD).long().argsort(dim=1, stable=True)
    longest = int((ids != PAD).sum(dim=1).max())
    return ids.gather(1, order)[:, :longest], marks.gather(1, order)[:, :longest]
