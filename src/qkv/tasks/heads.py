"""Head prediction: sentences with their dependency trees in, for each word the word that governs it out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from qkv.config import Tree
from qkv.data.examples import Ints
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.objectives.heads import NOBODY, Heads, HeadsBatch
from qkv.positions.tree import pad_trees, paths
from qkv.tasks.task import Task
from qkv.text.conllu import Sentence, read_conllu
from qkv.text.tokenizer import PAD, UNK, Tokenizer


@dataclass(frozen=True)
class Encoded:
    """The sub-words of a sentence, the word (from 0) that each belongs to, and the head of each word (0 = root)."""

    ids: list[int]
    words: list[int]
    heads: list[int]

    @property
    def first(self) -> list[int]:
        """The place of each word's first sub-word."""
        return [place for place, word in enumerate(self.words) if place == 0 or self.words[place - 1] != word]


class FindHeads(Task):
    """Dozat & Manning 2017 on the positions of Wang et al. 2019: find each word's head in CoNLL-U sentences.

    A test of what positions tell, not a parser: structural positions are made from the gold tree, so that the answer is
    in the input. A model that is given them and cannot find the heads does not use them.
    """

    name = "heads"
    architecture = "head_finder"
    objective_class = Heads
    defaults = {  # noqa: RUF012
        "data": {"vocab_size": 4000, "batch_tokens": 2048},
        "model": {"preset": "small"},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=50)", "learning_rate": 2e-3, "epochs": 5.0,
                     "precision": "float32"},
    }  # fmt: skip
    files = "CoNLL-U files, for example: qkv train --task heads train.conllu --valid dev.conllu"
    asks = "words with spaces between them"

    def read(self, path: Path) -> Iterable[Sentence]:
        for sentence in read_conllu(path):
            try:
                paths(sentence.heads)
            except InputError as error:
                raise InputError(f"{sentence.place}: {error}") from None
            yield sentence

    def key(self, example: Sentence) -> str:
        return " ".join(example.words)

    def texts(self, example: Sentence) -> list[str]:
        return [" ".join(example.words)]

    def encode(self, examples: Sequence[Sentence], tokenizer: Tokenizer, facts: Tree) -> list[Encoded]:
        forms = sorted({word for sentence in examples for word in sentence.words})
        pieces = {form: ids or [UNK] for form, ids in zip(forms, tokenizer.encode_batch(forms), strict=True)}
        return [encode(sentence, pieces) for sentence in examples]

    def size(self, encoded: Encoded) -> tuple[int, ...]:
        return (len(encoded.ids),)

    def collate(self, encoded: Sequence[Encoded], numbers: Ints) -> HeadsBatch:
        columns = ([one.ids for one in encoded], [one.first for one in encoded], [one.heads for one in encoded])
        ids, first, heads = (
            pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler)
            for rows, filler in zip(columns, (PAD, NOBODY, NOBODY), strict=True)
        )
        tree = pad_trees([one.heads for one in encoded], [one.words for one in encoded])
        return HeadsBatch(ids, first, heads, tree, numbers)

    def baselines(self, train: Sequence[Encoded], valid: Sequence[Encoded], loaded: Loaded) -> dict[str, float]:
        """The best of all rules "the head stands n words further on", as counted in training."""
        [(common, _)] = Counter(shift for one in train for shift in shifts(one)).most_common(1)
        found = [shift == common for one in valid for shift in shifts(one)]
        return {f"always the word at {common:+d}" if common else "always the root": sum(found) / len(found)}

    @torch.inference_mode()
    def predict(self, loaded: Loaded, texts: Sequence[str]) -> list[Tree]:
        """The words of each text and the head of each, as in CoNLL-U; not with positions that need the tree itself."""
        model: Any = loaded.model
        if model.encoder.position.needs_tree:
            raise InputError(
                f"this model has {model.config.position!r} positions, which are made from the heads themselves; "
                "ask a model with other positions"
            )
        found: list[Tree] = []
        for text in texts:
            words = text.split()
            if not words:
                raise InputError("a text without a word was given; give words with spaces between them")
            [one] = self.encode([Sentence(words, [0] * len(words), "")], loaded.tokenizer, {})
            heads = model(torch.tensor([one.ids]), torch.tensor([one.first])).argmax(dim=2)[0].tolist()
            found.append({"words": words, "heads": heads})
        return found


def encode(sentence: Sentence, pieces: dict[str, list[int]]) -> Encoded:
    ids = [number for word in sentence.words for number in pieces[word]]
    words = [place for place, word in enumerate(sentence.words) for _ in pieces[word]]
    return Encoded(ids, words, sentence.heads)


def shifts(one: Encoded) -> list[int]:
    """How many words further on each word's head stands; 0 for the root, which no word is from itself."""
    return [head - place if head else 0 for place, head in enumerate(one.heads, start=1)]
