"""What is asked about single tokens of passages, and stands in their marks."""

from collections.abc import Container, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.data import Batch
from qkv.objectives.masked_lm import special
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.passages import CAPITAL, RECURS, Passages, read
from qkv.text.tokenizer import Tokenizer

UNASKED = -1  # the label of special tokens


@dataclass(frozen=True, kw_only=True)
class OfTokens(Usual):
    """Whether each token has a mark; by itself nothing."""

    name: ClassVar[str]
    mark: ClassVar[int]
    turn = 1
    passages = True
    _special: ClassVar[Tensor]  # (V,), True at special tokens

    @property
    def heads(self) -> Mapping[str, str]:  # type: ignore[override]
        return {self.name: "tags(n=2)"}

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "OfTokens":
        known = copy(self)
        object.__setattr__(known, "_special", special(tokenizer))
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels (B, T): 1 where the mark is, 0 at other tokens."""
        Passages(batch, self.name)
        text = read(batch, inputs)
        labels = ((text.marks & self.mark) > 0).long().masked_fill(self._special[text.ids], UNASKED)
        return Asked({"ids": text.ids}, labels, int((labels != UNASKED).sum()), beside=text.beside)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        logits, labels = outputs.answer(self.name), asked.labels  # (B, T, 2), (B, T)
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=UNASKED, reduction="sum")
        return Loss(total, {"accuracy": (logits.argmax(dim=2) == labels).sum()})


class Capitalisation(OfTokens):
    """Sun et al. 2020 (ERNIE 2.0), section 4.2.1: does the word begin with a capital? For vocabularies of small letters
    alone, in which nothing else tells."""

    name = "capitalisation"
    mark = CAPITAL


class TokenDocument(OfTokens):
    """Sun et al. 2020 (ERNIE 2.0), section 4.2.1: does the token stand in other passages of its document too?"""

    name = "token_document"
    mark = RECURS
