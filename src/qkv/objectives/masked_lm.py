"""Masked language modelling: words of a text are hidden, and asked for."""

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.smoothing import negative_log_likelihood
from qkv.text.tokenizer import BOS, PAD, Tokenizer

ROWS = 256  # tokens whose logits stand in memory at a time


@dataclass(frozen=True, kw_only=True)
class MaskedLM(Usual):
    """Devlin et al. 2019, section 3.1, task 1: L = - sum over hidden tokens of log p(token | the text with holes).

    A token that is chosen becomes <mask> 8 times in 10, another one at random once, and stays as it is once.
    """

    rate: float = setting(0.15, "the share of tokens that are asked for")
    mask: float = setting(0.8, "the share of these that become <mask>")
    keep: float = setting(0.1, "the share of these that stay as they are; the rest become any token")

    turn = 2
    _mask_id: ClassVar[int]  # of the vocabulary that it knows
    _special: ClassVar[Tensor]  # (V,), True at special tokens

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1 or min(self.mask, self.keep) < 0 or self.mask + self.keep > 1:
            raise ValueError(
                f"rate={self.rate}, mask={self.mask} and keep={self.keep} are no shares; give 0 < rate <= 1, and mask "
                "and keep of at least 0 that are at most 1 together"
            )

    def knowing(self, tokenizer: Tokenizer) -> "MaskedLM":
        known = copy(self)
        special = torch.zeros(len(tokenizer), dtype=torch.bool)
        special[list(tokenizer.specials.values())] = True
        for name, value in {"_mask_id": tokenizer.special("<mask>"), "_special": special}.items():
            object.__setattr__(known, name, value)
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels (B, T): the tokens that are asked for, PAD elsewhere. A window of running text begins with <s>."""
        ids = inputs.get("ids", batch.columns[0]).clone()
        ids[:, 0] = BOS
        chosen = self.choose(ids, rng)
        labels = ids.masked_fill(~chosen, PAD)
        draw = torch.rand(ids.shape, generator=rng)
        drawn = torch.randint(len(self._special), ids.shape, generator=rng)
        ids = torch.where(chosen & (draw < self.mask), self._mask_id, ids)
        ids = torch.where(chosen & (draw >= self.mask + self.keep), drawn, ids)
        return Asked({"ids": ids}, labels, int(chosen.sum()), read=int((ids != PAD).sum()))

    def choose(self, ids: Tensor, rng: torch.Generator) -> Tensor:
        """max(1, round(rate n)) tokens of each row of n, special ones counted; these are not taken."""
        free = ~self._special[ids]
        wanted = ((ids != PAD).sum(dim=1) * self.rate).round().clamp(min=1)  # (B,)
        turn = torch.rand(ids.shape, generator=rng).masked_fill(~free, 2.0).argsort(dim=1).argsort(dim=1)
        return (turn < wanted[:, None]) & free

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over the tokens that are asked for: only these are projected. `accuracy` counts the best."""
        at, table = asked.labels != PAD, outputs.projection
        labels, hidden = asked.labels[at], table.ready(outputs.hidden[at])  # (N,), (N, D)
        total, likelihood = negative_log_likelihood(hidden, table.weight, table.bias, labels, pad=PAD)
        if torch.is_grad_enabled():
            return Loss(total, {"likelihood": likelihood})
        best = torch.cat([F.linear(some, table.weight, table.bias).argmax(dim=1) for some in hidden.split(ROWS)])
        return Loss(total, {"likelihood": likelihood, "accuracy": (best == labels).sum()})
