"""From a document to passages: rows of whole sentences, with marks of their tokens (objectives/passages.py)."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from qkv.data.rows import Ints
from qkv.objectives.passages import BASE, CAPITAL, IN_ENTITY, IN_PHRASE, NAMED, RECURS
from qkv.text.examples import Text
from qkv.text.sentences import split_sentences
from qkv.text.tokenizer import Tokenizer


def passages(piece: Text, document: int, tokenizer: Tokenizer, room: int) -> Iterator[list[list[int]]]:
    """The rows of a document, or of a piece of one: as many of its sentences in each as have `room`.

    A sentence that is longer is cut into several. What else stands in its document is told by the piece alone.
    """
    text = piece.text
    ids, spans = tokenizer.encode_spans(text)
    starts = np.array([start for start, _ in spans], np.int64)
    marks = np.array([CAPITAL * text[start:end][:1].isupper() for start, end in spans], np.int64)
    for units, mark in ((piece.phrases, IN_PHRASE), (piece.names, IN_ENTITY)):
        for start, end in units:  # all tokens of a unit but the first go on with it
            marks[np.searchsorted(starts, start, side="right") : np.searchsorted(starts, end)] |= mark
    begun = np.searchsorted(starts, [start for start, _ in piece.names])
    marks[begun[begun < len(marks)]] |= NAMED
    ends = np.searchsorted(starts, np.cumsum([len(sentence) for sentence in split_sentences(text)]))
    rows = list(packed(np.diff(ends, prepend=0), room))
    borders = np.cumsum([0, *map(sum, rows)])
    parts = [slice(first, last) for first, last in pairwise(borders)]
    seen = Counter(token for part in parts for token in set(ids[part]))
    marks |= np.array([RECURS * (seen[token] > 1) for token in ids], np.int64)
    for part, lengths in zip(parts, rows, strict=True):
        yield [ids[part], lengths, marks[part].tolist(), [document // BASE, document % BASE, room]]


def packed(lengths: Ints, room: int) -> Iterator[list[int]]:
    """Lengths of sentences, parted into rows whose sums have room."""
    row = list[int]()
    for length in lengths.tolist():
        for part in [room] * (length // room) + [length % room]:
            if row and sum(row) + part > room:
                yield row
                row = []
            row += [part] if part else []
    if row:
        yield row
