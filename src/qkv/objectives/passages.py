"""Passages: rows of whole sentences of one document, and how they become the texts that a model reads.

A row has four columns: the ids of its sentences one behind the other, the length of each sentence, marks of each token,
and [number of the document // BASE, its rest, the most tokens that a row may have].
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.data import Batch
from qkv.data.rows import Ints
from qkv.errors import InputError
from qkv.objectives.objective import Given
from qkv.text.tokenizer import BOS, EOS, PAD

COLUMNS = 4
BASE = 2**15  # a column holds numbers below 2^16
# The marks of a token: its first letter is a capital; it stands in another passage of its document too; it goes on with
# a phrase, with a name; a name begins with it.
CAPITAL, RECURS, IN_PHRASE, IN_ENTITY, NAMED = 1, 2, 4, 8, 16

PADDED, ENDED, BEGUN = -3, -2, -1  # in place of a token's number: <pad>, </s>, <s>
ROOM = 2**16  # places in the corpus that a row takes


class Read(NamedTuple):
    """Texts (B, T) as a model reads them, the marks of their tokens, and where in the corpus each token stands."""

    ids: Tensor
    marks: Tensor
    places: Tensor

    @property
    def beside(self) -> dict[str, Tensor]:
        """What is handed on to other objectives beside the ids."""
        return {"marks": self.marks, "places": self.places}


def is_passages(batch: Batch) -> bool:
    return len(batch.columns) == COLUMNS


def read(batch: Batch, inputs: Given) -> Read:
    """What earlier objectives made of a batch; or else its texts: windows of running text, each begun with <s> in place
    of its first token, which the window before has asked for; or passages, <s> and </s> around each."""
    if "ids" in inputs:
        ids = inputs["ids"]
        usual = numbered(batch)[:, None] + torch.arange(ids.size(1))
        return Read(ids, inputs.get("marks", torch.zeros_like(ids)), inputs.get("places", usual))
    first = batch.columns[0]
    starts = torch.from_numpy(batch.rows[:, 1:]).long()  # (B, 1): of running text, where a window begins
    if not is_passages(batch):
        ids = first.clone()
        ids[:, 0] = BOS
        return Read(ids, torch.zeros_like(ids), starts + torch.arange(ids.size(1)))
    ids, marks = (F.pad(batch.columns[column], (1, 1)) for column in (0, 2))
    ids[:, 0] = BOS
    ids[torch.arange(len(ids)), batch.lengths[:, 0] + 1] = EOS
    return Read(ids, marks, numbered(batch)[:, None] + torch.arange(ids.size(1)) - 1)


def numbered(batch: Batch) -> Tensor:
    """Where in the corpus each row begins (B,)."""
    shards, rows = torch.from_numpy(batch.rows).long().T
    return (shards << 46) + rows * ROOM + 1


class Passages:
    """The sentences of a batch of passages, to be arranged anew."""

    def __init__(self, batch: Batch, asks: str) -> None:
        if not is_passages(batch):
            raise InputError(
                f"{asks} asks about the sentences of documents, and these rows are not made of them; "
                'give it passages (data.rows = "passages" of the task fill)'
            )
        self.batch = batch
        self.sizes = [row[:n] for row, n in zip(batch.columns[1].numpy(), batch.lengths[:, 1].tolist(), strict=True)]
        width = batch.columns[0].size(1)
        # The sentences of row i are the tokens borders[i][j] to borders[i][j + 1] of all ids behind each other.
        self.borders = [np.cumsum([i * width, *sizes]) for i, sizes in enumerate(self.sizes)]
        high, low, room = batch.columns[3].T.numpy()
        self.documents: Ints = high * BASE + low
        self.room = int(room.max())

    def __len__(self) -> int:
        return len(self.sizes)

    def span(self, row: int, first: int, last: int) -> Ints:
        """The tokens of sentences first to last - 1 of a row."""
        return np.arange(self.borders[row][first], self.borders[row][last])

    def stranger(self, row: int, draw: float) -> int | None:
        """A row of another document, if there is one."""
        others = np.flatnonzero(self.documents != self.documents[row])
        return int(others[int(draw * len(others))]) if len(others) else None

    def like(self, row: int, tokens: int, draw: float) -> Ints:
        """Sentences of a row that have about so many tokens together, and never more than that; of a single sentence
        that is longer, the beginning."""
        borders = self.borders[row]
        last = len(borders) - 1
        # From any sentence on, or where the rest would be too short, from an earlier one.
        latest = int(np.searchsorted(-(borders[-1] - borders[:-1]), -tokens, side="right"))
        first = int(draw * max(1, min(latest, last)))
        stop = int(np.searchsorted(borders, borders[first] + tokens, side="right")) - 1
        return np.arange(borders[first], borders[stop] if stop > first else borders[first] + tokens)

    def arranged(self, texts: Sequence[Sequence[Ints]], roles: Sequence[int] = ()) -> tuple[dict[str, Any], Read]:
        """<s> A </s> B </s> .. of the tokens of one text, two or more for each row; and the inputs of a model.

        Segments tell them apart: 0 up to the first </s>, then 1; or those of `roles`, one for each text.
        """
        ended = np.array([ENDED])
        rows = [np.concatenate([[BEGUN], *chain.from_iterable((part, ended) for part in parts)]) for parts in texts]
        width = max(map(len, rows))
        source = torch.from_numpy(
            np.stack([np.pad(row, (0, width - len(row)), constant_values=PADDED) for row in rows])
        )
        size = self.batch.columns[0].size(1)
        places = (numbered(self.batch)[:, None] + torch.arange(size)).flatten()
        ids, marks, at = (
            torch.cat([column.flatten(), column.new_tensor(special)])[source]
            for column, special in (
                (self.batch.columns[0], [PAD, EOS, BOS]), (self.batch.columns[2], [0, 0, 0]), (places, [0, 0, 0])
            )
        )  # fmt: skip
        at[:, 0] = numbered(self.batch) - 1
        found = Read(ids, marks, at)
        if max(map(len, texts)) == 1:
            return {"ids": ids}, found
        segments = [
            np.repeat(roles or [0, *[1] * (len(parts) - 1)], [len(part) + 1 for part in parts]) for parts in texts
        ]
        padded = [np.pad(one, (1, width - 1 - len(one))) for one in segments]  # <s> is of the first text
        if roles:
            for one in padded:
                one[0] = roles[0]
        return {"ids": ids, "segments": torch.from_numpy(np.stack(padded))}, found
