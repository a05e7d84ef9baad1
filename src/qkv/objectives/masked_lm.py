"""Masked language modelling: words of a text are hidden, and asked for."""

from collections.abc import Container
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives import hiding
from qkv.objectives.hiding import Draw, Flags
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.passages import IN_ENTITY, IN_PHRASE, Read, read
from qkv.objectives.smoothing import negative_log_likelihood
from qkv.text.tokenizer import PAD, Tokenizer

ROWS = 256  # tokens whose logits stand in memory at a time
INSIDE = {"phrase": IN_PHRASE, "entity": IN_ENTITY}  # units that come with the rows


@dataclass(frozen=True, kw_only=True)
class MaskedLM(Usual):
    """Devlin et al. 2019, section 3.1, task 1: L = - sum over hidden tokens of log p(token | the text with holes).

    A token that is chosen becomes <mask> 8 times in 10, another one at random once, and stays as it is once. What is
    chosen is a `unit`: pieces (BERT), whole words (BERT's later code), spans of words (SpanBERT, where a whole span
    shares its fate), phrases or names (ERNIE 1.0, of files that mark them).
    """

    rate: float = setting(0.15, "the share of tokens that are asked for; of phrases and entities, the share of units")
    mask: float = setting(0.8, "the share of these that become <mask>")
    keep: float = setting(0.1, "the share of these that stay as they are; the rest become any token")
    unit: Literal["piece", "word", "span", "phrase", "entity"] = setting(
        "piece", "what is hidden as a whole: piece, word, span, phrase or entity"
    )
    only: bool = setting(
        False, "of phrases and entities: those that the files mark, of several tokens, and no other words"
    )
    static: bool = setting(False, "hide the same tokens in every epoch, as BERT did, and not others each time")

    turn = 2
    _mask_id: ClassVar[int]  # of the vocabulary that it knows
    _special: ClassVar[Tensor]  # (V,), True at special tokens
    _begins: ClassVar[Tensor]  # (V,), True at tokens that a word begins with

    def __post_init__(self) -> None:
        if self.only and self.unit not in INSIDE:
            raise ValueError(f"only=True is for the units {' and '.join(INSIDE)}, and unit is {self.unit}")
        if not 0 < self.rate <= 1 or min(self.mask, self.keep) < 0 or self.mask + self.keep > 1:
            raise ValueError(
                f"rate={self.rate}, mask={self.mask} and keep={self.keep} are no shares; give 0 < rate <= 1, and mask "
                "and keep of at least 0 that are at most 1 together"
            )

    @property
    def passages(self) -> bool:  # type: ignore[override]
        return self.unit in INSIDE

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "MaskedLM":
        known = copy(self)
        begins = torch.tensor(tokenizer.begins_word)
        facts = {"_mask_id": tokenizer.special("<mask>"), "_special": special(tokenizer), "_begins": begins}
        for name, value in facts.items():
            object.__setattr__(known, name, value)
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels (B, T): the tokens that are asked for, PAD elsewhere."""
        text = read(batch, inputs)
        ids = text.ids
        draw = hiding.by_place(text.places) if self.static else hiding.at_random(ids.shape, rng)
        hidden = self.choose(text, draw)
        fate, drawn = draw(), (draw() * len(self._special)).astype(np.int64)
        if self.unit == "span":
            fate = np.take_along_axis(fate, hiding.runs(hidden), axis=1)
        masked = np.where(hidden & (fate < self.mask), self._mask_id, ids.numpy())
        masked = np.where(hidden & (fate >= self.mask + self.keep), drawn, masked)
        labels = ids.masked_fill(~torch.from_numpy(hidden), PAD)
        found = {"ids": torch.from_numpy(masked)}
        count, tokens = int(hidden.sum()), int((ids != PAD).sum())
        return Asked(found, labels, count, beside={"labels": labels}, read=tokens)

    def choose(self, text: Read, draw: Draw) -> Flags:
        """Of n tokens max(1, round(rate n)), special ones counted, though none is taken; of spans, ceil(rate n) of the
        tokens that are not special; of phrases and entities max(1, round(rate n)) of n units."""
        ids = text.ids
        free: Flags = (~self._special[ids]).numpy()
        counted = (ids != PAD).sum(dim=1).numpy() if self.unit in ("piece", "word") else free.sum(axis=1)
        budget = np.rint(counted * self.rate).astype(np.int64).clip(min=1)
        if self.unit == "piece":
            return hiding.some(free, budget, draw)
        starts: Flags = self._begins[ids].numpy() | ~free
        inside: Flags = (text.marks.numpy() & INSIDE.get(self.unit, 0)) != 0
        starts &= ~inside
        starts[:, 0] = True
        starts[:, 1:] |= ~free[:, :-1]
        if self.unit == "word":
            return hiding.words(free, starts, budget, draw)
        if self.unit == "span":
            return hiding.spans(free, starts, np.ceil(counted * self.rate - 1e-9).astype(np.int64), draw)
        marked = np.pad(inside, ((0, 0), (0, 1)))[:, 1:]  # where the token behind goes on with a phrase
        return hiding.units(free, starts, starts & marked if self.only else starts, self.rate, draw)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed over the tokens that are asked for: only these are projected. `accuracy` counts the best; of units,
        `exact_match` those of several tokens of which each is the best."""
        at, table, runs = asked.labels != PAD, outputs.projection, None
        if self.unit != "piece":
            rows = np.arange(len(at))[:, None] * at.size(1)
            runs = torch.from_numpy(hiding.runs(at.cpu().numpy()) + rows).to(at.device)[at]
        return of_words(table.ready(outputs.hidden[at]), table.weight, table.bias, asked.labels[at], runs)

    def check(self, documents: int, marks: int) -> None:
        if self.unit in INSIDE and not marks & INSIDE[self.unit]:
            raise InputError(
                f"masked_lm hides whole units of the kind {self.unit}, and the files mark none; give treebanks "
                "(.conllu) or tagged names (.conll), or unit='word'"
            )


def of_words(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, runs: Tensor | None = None) -> Loss:
    """- log p of labels (N,) by hidden (N, D); where nothing is learned, how many of them are the most probable too,
    and how many `runs` (N,) of several of them."""
    total, likelihood = negative_log_likelihood(hidden, weight, bias, labels, pad=PAD)
    if torch.is_grad_enabled():
        return Loss(total, {"likelihood": likelihood})
    best = torch.cat([F.linear(some, weight, bias).argmax(dim=1) for some in hidden.split(ROWS)])
    parts = {"likelihood": likelihood, "accuracy": (best == labels).sum()}
    if runs is None:
        return Loss(total, parts)
    _, run, sizes = runs.unique(return_inverse=True, return_counts=True)
    wrong = torch.bincount(run, weights=(best != labels).float(), minlength=len(sizes))
    whole = ((wrong == 0) & (sizes > 1)).sum()
    return Loss(total, parts | {"exact_match": whole}, {"exact_match": int((sizes > 1).sum())})


def special(tokenizer: Tokenizer) -> Tensor:
    """(V,), True at special tokens."""
    found = torch.zeros(len(tokenizer), dtype=torch.bool)
    found[list(tokenizer.specials.values())] = True
    return found
