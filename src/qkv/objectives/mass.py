"""Masked sequence to sequence: the encoder reads a sentence with a hole, the decoder writes what stood there."""

from collections.abc import Container
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.objectives.masked_lm import of_words, special
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Mass(Usual):
    """Song et al. 2019, Eq. 1: L = - sum_t log p(x_t | x_u .. x_t-1, the sentence without x_u .. x_v).

    The fragment x_u .. x_v has k = round(ratio m) of the m tokens of a sentence, its end </s> among them. Each token of
    it becomes <mask> 8 times in 10, another one at random once, and stays once. The decoder reads the fragment shifted
    by one, at the places that it has in the whole sentence: x_u-1 stands at u - 1, <s> at 0. So k = m is a language
    model beside an empty source, and k = 1 masked language modelling of a single token.

    A row may begin with the mark of its language, which both sides read and which is never hidden. Differs: the paper
    adds a vector of the language to every token; and the authors' code lets the decoder look past <mask>, ours may
    look at it.
    """

    ratio: float = setting(0.5, "k / m, the share of a sentence that is hidden; 0 hides one token, 1 all of them")
    start: float = setting(0.2, "the share of fragments that begin where the sentence does")
    end: float = setting(0.2, "the share that ends where the sentence does; the others stand anywhere")
    mask: float = setting(0.8, "the share of hidden tokens that become <mask>")
    keep: float = setting(0.1, "the share of these that stay as they are; the rest become any token")

    turn = 2
    _mask_id: ClassVar[int]  # of the vocabulary that it knows
    _special: ClassVar[Tensor]  # (V,), True at special tokens

    def __post_init__(self) -> None:
        for one, other in ((self.start, self.end), (self.mask, self.keep), (self.ratio, 0)):
            if not (one >= 0 and other >= 0 and one + other <= 1):
                raise ValueError(
                    f"ratio={self.ratio}, start={self.start}, end={self.end}, mask={self.mask} and keep={self.keep} "
                    "are no shares; give numbers of at least 0, of which start and end, and mask and keep, are at most "
                    "1 together"
                )

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "Mass":
        known = copy(self)
        for name, value in {"_mask_id": tokenizer.special("<mask>"), "_special": special(tokenizer)}.items():
            object.__setattr__(known, name, value)
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Rows x_1 .. x_m, perhaps behind a mark; labels (B, T) are the fragments, as wide as the longest."""
        (ids,) = batch.columns
        first, stop = self.borders(ids, rng)
        place = torch.arange(ids.size(1))
        hidden = (place >= first[:, None]) & (place < stop[:, None])  # (B, S)
        places = first[:, None] + torch.arange(int((stop - first).max()))  # (B, T); padding stands behind
        inside, whole = places < stop[:, None], F.pad(ids, (1, 0), value=BOS)
        at = places.clamp(max=ids.size(1) - 1)
        tgt, labels = (row.gather(1, at).masked_fill(~inside, PAD) for row in (whole, ids))
        found = {"src": self.replaced(ids, hidden, rng), "tgt": tgt, "places": places}
        count = int(inside.sum())
        return Asked(found, labels, count, read=int((ids != PAD).sum()) + count)

    def borders(self, ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Where the fragment of each row begins and where it is over, (B,) both."""
        marks = (self._special[ids[:, 0]] & (ids[:, 0] != EOS)).long()
        m = (ids != PAD).sum(dim=1) - marks
        k = (self.ratio * m).round().long().clamp(min=1)
        free = m - k  # how far it may be from the sentence's start
        kind, where = torch.rand(2, len(ids), generator=rng, dtype=torch.float64)
        offset = (where * (free + 1)).long()
        offset = torch.where(kind < self.start + self.end, free, offset)
        first = marks + torch.where(kind < self.start, 0, offset)
        return first, first + k

    def replaced(self, ids: Tensor, hidden: Tensor, rng: torch.Generator) -> Tensor:
        """What the encoder reads: <mask>, any token that is not special, or the token itself where it is hidden."""
        fate, drawn = torch.rand(2, *ids.shape, generator=rng, dtype=torch.float64)
        (plain,) = (~self._special).nonzero(as_tuple=True)
        others = plain[(drawn * len(plain)).long()]
        src = torch.where(hidden & (fate < self.mask), self._mask_id, ids)
        return torch.where(hidden & (fate >= self.mask + self.keep), others, src)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over the fragments. `accuracy` counts the best."""
        at, table = asked.labels != PAD, outputs.projection
        return of_words(table.ready(outputs.hidden[at]), table.weight, table.bias, asked.labels[at])
