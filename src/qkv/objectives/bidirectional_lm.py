"""Language modelling from both sides: given what stands before a word, and given what comes after it."""

from collections.abc import Container
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from qkv.data import Batch
from qkv.models.elmo import words_of
from qkv.objectives.masked_lm import special
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.smoothing import negative_log_likelihood
from qkv.text.tokenizer import PAD, Tokenizer


@dataclass(frozen=True, kw_only=True)
class BidirectionalLM(Usual):
    """Peters et al. 2018, section 3.1: - sum_k log p(t_k | t_1 .. t_k-1) + log p(t_k | t_k+1 .. t_N), halved as in the
    authors' code, so that its perplexity is the mean of both.

    Of whole words: one that the vocabulary does not have is asked for as <unk>, and is still read by its letters.
    """

    turn = 1
    _begins: ClassVar[Tensor]  # (V,), True at tokens that a word begins with
    _special: ClassVar[Tensor]  # (V,), True at special tokens

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "BidirectionalLM":
        known = copy(self)
        object.__setattr__(known, "_begins", torch.tensor(tokenizer.begins_word))
        object.__setattr__(known, "_special", special(tokenizer))
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels (B, 2, T), the word at its first token: from the left all but the first word of a row, from the right
        all but the last; PAD elsewhere."""
        ids = inputs.get("ids", batch.columns[0])
        words = words_of(ids, self._begins, self._special)
        number = (words != PAD).cumsum(dim=1)  # from 1
        ahead, back = words.masked_fill(number == 1, PAD), words.masked_fill(number == number[:, -1:], PAD)
        return Asked({"ids": ids}, torch.stack((ahead, back), dim=1), int((ahead != PAD).sum()))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over words; `ahead` and `back` are those of each direction."""
        table, sums = outputs.projection, list[Tensor]()
        for hidden, labels in zip(outputs.hidden.chunk(2, dim=2), asked.labels.unbind(dim=1), strict=True):
            at = labels != PAD
            sums.append(negative_log_likelihood(hidden[at], table.weight, table.bias, labels[at], pad=PAD)[0])
        total, parts = (sums[0] + sums[1]) / 2, {"ahead": sums[0].detach(), "back": sums[1].detach()}
        return Loss(total, {"likelihood": total.detach(), **parts})
