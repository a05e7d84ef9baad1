"""Translation: given the source and the target so far, predict the next target token."""

from dataclasses import dataclass

import torch

from qkv.config import setting
from qkv.data import Batch
from qkv.models import Outputs
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.reinforce import reinforce
from qkv.objectives.smoothing import Form, chunked_cross_entropy
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class Translation(Usual):
    """Vaswani et al. 2017, section 5.4: cross-entropy with label smoothing, teacher-forced.

    With `r_drop` a, Liang et al. 2021 (R-Drop): each sentence is read twice under different dropout, and the mean of
    the two losses is joined by a / 2 times how far the two predictions are apart. Half as fast; for little data.
    """

    label_smoothing: float = setting(0.1, "probability mass taken from the right word and spread over the others")
    smoothing_form: Form = setting("fairseq", "how it is spread: fairseq, torch, annotated or tensor2tensor")
    r_drop: float = setting(0.0, "R-Drop: read each sentence twice and pull the two predictions together; 0 is off")

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")
        if not 0 <= self.r_drop < float("inf"):
            raise ValueError(f"r_drop must be 0 (off) or more, not {self.r_drop}")

    @property
    def readings(self) -> int:
        """How often each sentence goes through the model."""
        return 2 if self.r_drop else 1

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """The model reads <s> y1 .. yn and is asked for y1 .. yn </s>, each real token counted once."""
        src, tgt = (torch.cat([ids] * self.readings) for ids in batch.columns)
        labels = tgt[:, 1:]
        return Asked({"src": src, "tgt": tgt[:, :-1]}, labels, int((labels != PAD).sum()) // self.readings)

    def loss(self, outputs: Outputs, asked: Asked) -> Loss:
        """Summed over the real tokens of labels (B, T), the mean of their readings."""
        table = outputs.projection
        given = outputs.hidden.flatten(0, 1), table.weight, table.bias, asked.labels.flatten()
        total, likelihood = chunked_cross_entropy(
            *given, smoothing=self.label_smoothing, form=self.smoothing_form, pad=PAD, r_drop=self.r_drop
        )
        if outputs.choices:
            total = total + reinforce(outputs, asked.labels, PAD)
        return Loss(total / self.readings, {"likelihood": likelihood / self.readings})
