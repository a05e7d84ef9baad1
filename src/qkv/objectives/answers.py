"""Answers about a whole text: its class, the word that is missing in it, the word that governs each word."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.models.reader import Reading
from qkv.objectives.causal_lm import documents
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.positions.tree import pad_trees
from qkv.text.tokenizer import PAD

NOBODY = -1  # the head of padding


@dataclass(frozen=True, kw_only=True)
class Classes(Usual):
    """Yang et al. 2016, Eq. 12: L = - sum over texts of log p(class), p = softmax(W v + b).

    Rows are (ids, label), or (ids, the length of each sentence, label) where a model reads sentences apart.
    """

    label_smoothing: float = setting(0.0, "probability mass taken from the right class and spread over the others")

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        *text, labels = batch.columns
        inputs = reading(text[0]) if len(text) == 1 else {"words": by_sentence(batch)}
        return Asked(inputs, labels[:, 0], len(batch))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Logits (B, n) against labels (B,): summed over texts, and how many of them are right."""
        logits = answered(outputs, "classes")
        total = F.cross_entropy(logits, asked.labels, reduction="sum", label_smoothing=self.label_smoothing)
        return Loss(total, {"accuracy": (logits.argmax(dim=1) == asked.labels).sum()})


def reading(ids: Tensor) -> dict[str, Tensor]:
    """One text or two (B, T): the second begins after the first </s> (BERT's segments; others do not read them)."""
    return {"ids": ids, "segments": documents(ids).clamp(max=1)}


def answered(outputs: Any, head: str) -> Tensor:
    """What a head says on a backbone, or a model that does nothing else."""
    return outputs if isinstance(outputs, Tensor) else outputs.answer(head)


def by_sentence(batch: Batch) -> Tensor:
    """Rows of ids (B, T) and of sentence lengths (B, N) -> the ids of each sentence (B, N, S), padded."""
    ids, lengths = batch.columns[:2]
    ends = lengths.cumsum(dim=1)[:, :, None]  # (B, N, 1)
    place = torch.arange(int(lengths.max())) + ends - lengths[:, :, None]  # (B, N, S)
    words = ids.gather(1, place.clamp(max=ids.size(1) - 1).flatten(1)).view(place.shape)
    return words.masked_fill(place >= ends, PAD)


@dataclass(frozen=True, kw_only=True)
class Cloze(Usual):
    """Cui et al. 2017, section 3: minimise -log P(answer), where P sums the attention on every place of a word.

    Rows are (document, question, candidates, answer): word ids all of them.
    """

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        document, question, candidates, answer = batch.columns
        return Asked({"document": document, "question": question}, (candidates, answer), len(batch))

    def loss(self, outputs: Reading, asked: Asked) -> Loss:
        """Summed over the questions; `accuracy` counts those whose most probable candidate is the answer."""
        candidates, answer = asked.labels  # (B, C), (B, 1)
        p = outputs.probability(answer)  # (B, 1)
        total = -p.clamp(min=torch.finfo(p.dtype).tiny).log().sum()  # a weight so small that it is 0 has no log
        best = outputs.probability(candidates).argmax(dim=1, keepdim=True)
        return Loss(total, {"accuracy": (candidates.gather(1, best) == answer).sum()})


@dataclass(frozen=True, kw_only=True)
class Heads(Usual):
    """Dozat & Manning 2017, section 3.1: cross-entropy of each word's head among the root and all words.

    Rows are (sub-word ids, the word from 0 that each belongs to, the head of each word, where 0 is the root).
    """

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Given: the ids (B, S), the place of each word's first sub-word (B, T), -1 at padding, and the trees."""
        ids, words, heads = batch.columns
        n_ids, _, n_words = batch.lengths.T
        starts = F.pad(words, (1, 0), value=-1)[:, :-1] != words
        starts &= torch.arange(ids.size(1)) < n_ids[:, None]
        padded = torch.arange(heads.size(1)) >= n_words[:, None]  # (B, T)
        first = torch.full_like(heads, NOBODY)
        first[~padded] = starts.nonzero()[:, 1]
        trees = pad_trees(
            [row[:n].tolist() for row, n in zip(heads, n_words, strict=True)],
            [row[:n].tolist() for row, n in zip(words, n_ids, strict=True)],
        )
        inputs = {"ids": ids, "first": first, "tree": trees}
        return Asked(inputs, heads.masked_fill(padded, NOBODY), int(n_words.sum()))

    def loss(self, outputs: Tensor, asked: Asked) -> Loss:
        """Summed over the real words of labels (B, T); outputs are scores (B, T, 1 + T).

        `accuracy` counts the words whose best head is right: the unlabelled attachment score.
        """
        labels = asked.labels
        total = F.cross_entropy(outputs.flatten(0, 1), labels.flatten(), ignore_index=NOBODY, reduction="sum")
        return Loss(total, {"accuracy": (outputs.argmax(dim=2) == labels).sum()})  # at padding never: no column is -1
