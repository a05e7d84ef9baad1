"""Costs of what a language model gives, beside what it is asked: activation regularisation."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch

from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.text.tokenizer import PAD, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Activation(Usual):
    """Merity et al. 2018, section 4.6, AR: the mean of h^2, h what the last layer gives after dropout.

    A term of a sum: "causal_lm + 2 * activation" has alpha = 2.
    """

    turn = 3
    name: ClassVar[str] = "activation"

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> Self:
        if reads != () and "state" not in reads:
            raise InputError(
                f"{self.name} is a cost of recurrent language models, such as awd_lstm in the task language_model; "
                "leave it out"
            )
        return self

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """The tokens that count (B, T)."""
        ids = inputs.get("ids", batch.columns[0])
        return Asked({"ids": ids}, ids != PAD, int((ids != PAD).sum()))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        return Loss(outputs.hidden.square().mean(dim=2)[asked.labels].sum())


@dataclass(frozen=True, kw_only=True)
class TemporalActivation(Activation):
    """Merity et al. 2018, section 4.6, TAR: the mean of (h_t - h_t+1)^2, h what the last layer gives before dropout."""

    name = "temporal_activation"

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """The tokens that count, all but the first of each row (B, T - 1)."""
        asked = super().prepare(batch, rng, inputs)
        return Asked(asked.inputs, asked.labels[:, 1:], int(asked.labels[:, 1:].sum()))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        moves = outputs.raw[:, 1:] - outputs.raw[:, :-1]  # (B, T - 1, D)
        return Loss(moves.square().mean(dim=2)[asked.labels].sum())
