"""The span boundary objective: the words of a hidden span, from what stands at its two ends."""

from collections.abc import Container, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.masked_lm import of_words, special
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.text.tokenizer import PAD, Tokenizer

NAME = "span_boundary"


@dataclass(frozen=True, kw_only=True)
class SpanBoundary(Usual):
    """Joshi et al. 2020 (SpanBERT), section 3.2: L = - sum_i log p(x_i | y_i), y_i = f(x_s-1, x_e+1, p_i-s+1), for each
    token i of a hidden span s .. e.

    Stands beside the masked_lm that hides them. Spans at the edge of a text, beside a special token, are not asked for.
    """

    longest: int = setting(20, "tokens of a span that are asked for, from its beginning on")

    turn = 3
    _special: ClassVar[Tensor]  # (V,), True at special tokens

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ValueError(f"longest must be at least 1 token, not {self.longest}")

    @property
    def heads(self) -> Mapping[str, str]:  # type: ignore[override]
        return {NAME: f"{NAME}(n={len(self._special)}, longest={self.longest})"}

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "SpanBoundary":
        known = copy(self)
        object.__setattr__(known, "_special", special(tokenizer))
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels: the tokens (N,); the row of each, the places before and after its span, and its own place in it."""
        if "labels" not in inputs:
            raise InputError(
                f"{NAME} asks about the spans that masked_lm hides; write both: masked_lm(unit='span') + {NAME}"
            )
        ids, labels = inputs["ids"], inputs["labels"]
        length = ids.size(1)
        hidden, place = labels != PAD, torch.arange(length).expand_as(ids)
        open_ = F.pad(hidden, (1, 1))
        begins, ends = hidden & ~open_[:, :-2], hidden & ~open_[:, 2:]
        start = torch.where(begins, place, 0).cummax(dim=1).values
        stop = torch.where(ends, place, length).flip(1).cummin(dim=1).values.flip(1)
        before, after, inner = start - 1, stop + 1, place - start
        inside = (before >= 0) & (after < length)
        bars = self._special[ids]
        fits = ~bars.gather(1, before.clamp(min=0)) & ~bars.gather(1, after.clamp(max=length - 1))
        row, at = (hidden & inside & fits & (inner < self.longest)).nonzero(as_tuple=True)
        places = (row, *(each[row, at] for each in (before, after, inner)))
        return Asked({"ids": ids}, (labels[row, at], *places), len(row))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        labels, *places = asked.labels
        y = outputs.answer(NAME, *places)  # (N, D)
        return of_words(y, outputs.projection.weight, outputs.heads[NAME].bias, labels)
