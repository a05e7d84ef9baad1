"""Permutation language modelling: a text is read in any order, and its last words in that order are asked for."""

from collections.abc import Container
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.attention import permuted
from qkv.config import setting
from qkv.data import Batch
from qkv.models.xlnet import places_of
from qkv.objectives import hiding
from qkv.objectives.hiding import Draw, Flags
from qkv.objectives.masked_lm import of_words, special
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.passages import read
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer


@dataclass(frozen=True, kw_only=True)
class PermutationLM(Usual):
    """Yang et al. 2019 (XLNet), Eq. 5: L = - E_z sum_t>c log p(x_z_t | x_z_<t), the last 1 / k of an order z.

    The tokens stay where they stand: only who sees whom goes by the order. Those that are asked for are chosen first,
    as spans of words (section 3.1), and an order is drawn of them and of </s> and <s>; all others come before, and see
    no more than each other (the authors' code). Nothing becomes <mask>.

    Differs: half of the authors' targets are in what the next row reads again, and half in the rest; here all are drawn
    from the whole text, and the next window goes on behind it. What they read again sees nothing of the rest; here all
    that is not asked for is seen by all. Half of their rows are read backwards, by places that
    count down (bi_data); here all are read as they stand.
    """

    k: int = setting(6, "one token of so many is asked for")
    unit: Literal["span", "released", "piece"] = setting(
        "span", "what is asked for as a whole: spans of words; of pieces, as the released sampler by mistake; pieces"
    )
    block: int = setting(0, "tokens within which the order is drawn, block behind block; 0 for the whole text")

    turn = 2
    _special: ClassVar[Tensor]  # (V,), True at special tokens
    _begins: ClassVar[Tensor]  # (V,), True at tokens that a word begins with

    def __post_init__(self) -> None:
        if self.k < 1 or self.block < 0:
            raise ValueError(f"k={self.k} and block={self.block} must be at least 1, and at least 0")

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "PermutationLM":
        known = copy(self)
        object.__setattr__(known, "_special", special(tokenizer))
        object.__setattr__(known, "_begins", torch.tensor(tokenizer.begins_word))
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels (B, P): what stands at the targets, PAD where a row has fewer."""
        ids = ending(read(batch, inputs).ids)
        more = {"segments": F.pad(inputs["segments"][:, 1:], (0, 1))} if "segments" in inputs else {}
        draw = hiding.at_random(ids.shape, rng)
        asked = torch.from_numpy(self.choose(ids, draw))
        mask = self.order(ids, asked, torch.from_numpy(draw()))
        targets, real = places_of(asked)
        labels = ids.gather(1, targets).masked_fill(~real, PAD)
        found = {"ids": ids, "mask": mask, "targets": targets, **more}
        return Asked(found, labels, int(asked.sum()), read=int((ids != PAD).sum()))

    def choose(self, ids: Tensor, draw: Draw) -> Flags:
        """Of n tokens n / k, at least one, special ones counted, though none is taken."""
        free: Flags = (~self._special[ids]).numpy()
        budget = ((ids != PAD).sum(dim=1) // self.k).clamp(min=1).numpy()
        if self.unit == "piece":
            return hiding.some(free, budget, draw)
        starts: Flags = self._begins[ids].numpy() | ~free
        starts[:, 0] = True
        starts[:, 1:] |= ~free[:, :-1]
        return hiding.grams(free, starts, budget, draw, k=self.k, by_piece=self.unit == "released")

    def order(self, ids: Tensor, asked: Tensor, draw: Tensor) -> Tensor:
        """Who sees whom (B, T, T): what is asked for, and </s> and <s>, those that come before it in the order."""
        turn = draw + torch.arange(ids.size(1)) // self.block if self.block else draw
        rank = torch.where(asked | (ids == BOS) | (ids == EOS), turn, -1.0).masked_fill(ids == PAD, torch.inf)
        return permuted(rank) & ~torch.eye(ids.size(1), dtype=torch.bool)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over the targets, by their queries. `accuracy` counts the best."""
        at, table = asked.labels != PAD, outputs.projection
        queries = outputs.hidden[
            :, outputs.hidden.size(1) - at.size(1) :
        ]  # (B, P, D), behind contents if there are any
        return of_words(table.ready(queries[at]), table.weight, table.bias, asked.labels[at])


def ending(ids: Tensor) -> Tensor:
    """Texts (B, T) whose first token, <s>, is their last, before the padding."""
    moved = F.pad(ids[:, 1:], (0, 1), value=PAD)
    moved[torch.arange(len(ids)), (ids != PAD).sum(dim=1) - 1] = BOS
    return moved
