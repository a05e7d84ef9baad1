"""Learning a vocabulary: texts are checked and counted, and the `tokenizers` library trains a model on them."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tokenizers
from tokenizers import models, trainers

from qkv.errors import InputError
from qkv.text.normalise import check_unicode

Tree = dict[str, Any]  # a tokenizer.json, or a part of one
NOTHING: Tree = {"type": "BPE", "vocab": {}, "merges": []}  # a model that knows no token


def checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts, of which one at least must have a character."""
    is_empty = True
    for text in texts:
        check_unicode(text)
        is_empty = is_empty and not text
        yield text
    if is_empty:
        raise InputError("there is no text to train a tokenizer on; give at least one sentence")


@contextmanager
def frequent(texts: Iterable[str], alphabet: list[str], most: int) -> Iterator[Iterator[str]]:
    """The texts without their rare characters, which are left to the bytes: at most `most` get a token, so that half of
    the room stays for longer pieces. To be counted first, the texts go through a file."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as spool:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
            spool.write(json.dumps(text, ensure_ascii=False) + "\n")
        rare = dict.fromkeys(map(ord, ranked(counts, alphabet)[max(most, len(alphabet)) :]))
        spool.seek(0)
        yield (json.loads(line).translate(rare) for line in spool)


def ranked(counts: Counter[str], alphabet: list[str]) -> list[str]:
    """Characters, the frequent ones first; before all, those of the alphabet."""
    counts.update(dict.fromkeys(alphabet, counts.total()))
    return sorted(counts, key=lambda letter: (-counts[letter], letter))


def train(frame: Tree, model: models.Model, trainer: trainers.Trainer, texts: Iterator[str]) -> Tree:
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps({**frame, "model": NOTHING}))
    tokenizer.model = model
    tokenizer.train_from_iterator(texts, trainer)
    learned: Tree = json.loads(tokenizer.to_str())["model"]
    return learned


def by_id(model: Tree) -> list[str]:
    """The tokens of a model in the order of their ids."""
    return sorted(model["vocab"], key=model["vocab"].__getitem__)


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}
