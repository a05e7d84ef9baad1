"""Translation: given the source and the target so far, predict the next target token."""

from dataclasses import dataclass

from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.models import Outputs
from qkv.objectives.objective import Loss
from qkv.objectives.reinforce import reinforce
from qkv.objectives.smoothing import Form, chunked_cross_entropy

PAD = 0


@dataclass(frozen=True, kw_only=True)
class Translation:
    """Vaswani et al. 2017, section 5.4: cross-entropy with label smoothing, teacher-forced."""

    label_smoothing: float = setting(0.1, "probability mass taken from the right word and spread over the others")
    smoothing_form: Form = setting("fairseq", "how it is spread: fairseq, torch, annotated or tensor2tensor")

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def prepare(self, batch: Batch) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The model reads <s> y1 .. yn and is asked for y1 .. yn </s>: ((src, tgt), labels)."""
        return (batch.src, batch.tgt[:, :-1]), batch.tgt[:, 1:]

    def count(self, labels: Tensor) -> int:
        """How many real tokens are asked for."""
        return int((labels != PAD).sum())

    def loss(self, outputs: Outputs, labels: Tensor) -> Loss:
        """Summed over the real tokens of labels (B, T); divide by `tokens` for the mean."""
        table = outputs.vocabulary
        total, likelihood = chunked_cross_entropy(
            outputs.hidden.flatten(0, 1),
            table.weight,
            table.bias,
            labels.flatten(),
            smoothing=self.label_smoothing,
            form=self.smoothing_form,
            pad=PAD,
        )
        if outputs.choices:
            total = total + reinforce(outputs, labels, PAD)
        return Loss(total, {"likelihood": likelihood}, self.count(labels))
