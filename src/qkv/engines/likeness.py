"""Whether a faster form of a model that reads says what the model says: the same vectors, labels, next words."""

from collections.abc import Iterator, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from qkv.attention.pooling import mean
from qkv.decoding.engine import Engine, Search
from qkv.decoding.searcher import by_length
from qkv.layers import Head
from qkv.models import Headed, Model
from qkv.text.tokenizer import PAD

CELLS = 2**12  # tokens that are read at a time
SOME = 32  # texts that are written on at a time
Rows = Sequence[Sequence[int]]


def batches(rows: Rows) -> Iterator[Tensor]:
    """Rows of ids (B, T), of like length."""
    for batch in by_length([len(row) for row in rows], CELLS):
        yield pad_sequence([torch.tensor(rows[i]) for i in batch], batch_first=True, padding_value=PAD)


@torch.inference_mode()
def likeness(model: Model, other: Model, rows: Rows) -> dict[str, float]:
    """The mean and the lowest cosine of the texts' mean states in both; and of a model with heads that name classes,
    the share of texts to which both give the same."""
    cosines, same = list[Tensor](), list[Tensor]()
    for ids in batches(rows):
        one, two = (each(ids) if isinstance(each, Headed) else each.encode(ids) for each in (model, other))  # type: ignore[operator]
        if isinstance(model, Headed):
            for name in model.head_texts:
                if cast(Head, model.heads.get_submodule(name)).names_classes:
                    found: tuple[Tensor, ...] = tuple(each.answer(name) for each in (one, two))  # (B, n)
                    same.append(found[0].argmax(dim=1) == found[1].argmax(dim=1))
            one, two = one.hidden, two.hidden
        cosines.append(torch.cosine_similarity(mean(one, ids != PAD), mean(two, ids != PAD)))
    every = torch.cat(cosines)
    labels = {"same_labels": float(torch.cat(same).float().mean())} if same else {}
    return {"cosine": float(every.mean()), "lowest_cosine": float(every.min()), **labels}


def same_next(one: Engine, other: Engine, rows: Rows) -> float:
    """The share of texts after which both engines write the same token."""
    same, how = 0, Search(beam=1, ends="cut")
    for first in range(0, len(rows), SOME):
        some = [list(row) for row in rows[first : first + SOME]]
        ours, theirs = ([found[0].tokens for found in each.decode(some, [1] * len(some), how)] for each in (one, other))
        same += sum(a == b for a, b in zip(ours, theirs, strict=True))
    return same / max(1, len(rows))
