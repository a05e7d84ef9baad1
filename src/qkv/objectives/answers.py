"""Answers about a text: its class, a number, a tag for each word, a part of it, the best of some choices; the word that
is missing in it, the word that governs each word."""

from dataclasses import dataclass
from typing import Any

import numpy as np
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
NO_TAG = -100  # of tokens that begin no word: cross-entropy leaves it out


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
    """One text or two (B, T): the second begins after the first </s> (BERT's segments; others do not read them). The
    first token of all, whatever it is, belongs to the first."""
    return {"ids": ids, "segments": F.pad(documents(ids[:, 1:]).clamp(max=1), (1, 0))}


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
class Number(Usual):
    """Devlin et al. 2019, section 4.1 (STS-B): L = sum over texts of (y - w . h)^2.

    Rows are (ids, number), or (ids, the same two texts in the other order, number): then h is the sum of both states
    (Radford et al. 2018, section 3.3), which is to add what the head says of each. A number is the two halves of its
    bits in float32.
    """

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        *orders, halves = batch.columns
        bits = (halves[:, 0] << 16 | halves[:, 1]).numpy().astype(np.uint32)
        return Asked(reading(torch.cat(orders)), torch.from_numpy(bits.view(np.float32)), len(batch))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        return Loss((rated(outputs, asked) - asked.labels).square().sum())


def rated(outputs: Any, asked: Asked) -> Tensor:
    """The number of each example (B,): what is said of one order, or of both together."""
    return answered(outputs, "number").view(-1, len(asked.labels)).sum(dim=0)


@dataclass(frozen=True, kw_only=True)
class Tags(Usual):
    """Devlin et al. 2019, section 5.3: the cross-entropy of each word's tag by the state of its first sub-word.

    Rows are (ids, the place of each word's first sub-word, the tag of each word).
    """

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        ids, first, tags = batch.columns
        real = torch.arange(first.size(1)) < batch.lengths[:, 1, None]  # (B, W)
        labels = torch.full_like(ids, NO_TAG)
        labels[real.nonzero()[:, 0], first[real]] = tags[real]
        return Asked(reading(ids), labels, int(real.sum()))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Logits (B, T, n) against labels (B, T): summed over words, and how many of them are right."""
        logits, labels = answered(outputs, "tags"), asked.labels
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NO_TAG, reduction="sum")
        return Loss(total, {"accuracy": (logits.argmax(dim=2) == labels).sum()})


@dataclass(frozen=True, kw_only=True)
class Spans(Usual):
    """Devlin et al. 2019, section 4.2 (SQuAD): -log p(start) - log p(end), each a softmax over the tokens, halved.

    Rows are (question and text, the places of the answer's first and last token); both 0 where there is no answer, so
    that the first token of all stands for it (section 4.3).
    """

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        ids, span = batch.columns
        return Asked(reading(ids), span, len(batch))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Logits (B, 2, T) against places (B, 2); `accuracy` counts those of which both are found."""
        logits = answered(outputs, "spans")
        total = F.cross_entropy(logits.flatten(0, 1), asked.labels.flatten(), reduction="sum") / 2
        return Loss(total, {"accuracy": (logits.argmax(dim=2) == asked.labels).all(dim=1).sum()})


@dataclass(frozen=True, kw_only=True)
class Choices(Usual):
    """Radford et al. 2018, section 3.3: each choice is read with the context by itself, and a softmax over what is said
    of them is the probability of each.

    Rows are (the ids of all of them, the length of each, the number of the right one).
    """

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Given: every choice of every row as a text (R, T); the labels are the right ones (B,), and where choices are,
        (B, N)."""
        texts, there = by_sentence(batch), batch.columns[1] > 0
        return Asked(reading(texts[there]), (batch.columns[2][:, 0], there), len(batch))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        logits, right = chosen(outputs, asked), asked.labels[0]
        return Loss(F.cross_entropy(logits, right, reduction="sum"), {"accuracy": (logits.argmax(1) == right).sum()})


def chosen(outputs: Any, asked: Asked) -> Tensor:
    """What is said of each choice (B, N); -inf where a row has none."""
    said, there = answered(outputs, "choices"), asked.labels[1]
    return said.new_full(there.shape, -torch.inf).masked_scatter(there, said)


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
