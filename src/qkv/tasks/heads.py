"""Head prediction: sentences with their dependency trees in, for each word the word that governs it out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.config import Tree
from qkv.data import each_row
from qkv.errors import InputError
from qkv.folder import About
from qkv.models import HeadFinder
from qkv.objectives import Asked
from qkv.positions.tree import paths as tree_paths
from qkv.tasks.corpus import Corpus
from qkv.tasks.predictor import Predictor
from qkv.tasks.task import Task
from qkv.text.asking import fields
from qkv.text.conllu import Sentence, read_conllu
from qkv.text.tokenizer import Tokenizer


class FindHeads(Task):
    """Dozat & Manning 2017 on the positions of Wang et al. 2019: find each word's head in CoNLL-U sentences.

    A test of what positions tell, not a parser: structural positions are made from the gold tree, so that the answer is
    in the input. A model that is given them and cannot find the heads does not use them.
    """

    name = "heads"
    shape = "sentences"
    example_class = Sentence
    kinds = (HeadFinder,)
    architecture = "head_finder"
    objective = "heads"
    figures = ("loss", "accuracy")
    score = "accuracy"
    defaults = {  # noqa: RUF012
        "data": {"vocab_size": 4000, "batch_tokens": 2048},
        "model": {"preset": "small"},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=50)", "learning_rate": 2e-3, "epochs": 5.0,
                     "precision": "float32"},
    }  # fmt: skip
    files = "CoNLL-U files, for example: qkv train --task heads train.conllu --valid dev.conllu"
    asks = 'qkv predict "words with spaces between them"'
    columns = 3

    def read(self, paths: Sequence[Path]) -> Iterator[Sentence]:
        return (checked(sentence) for path in paths for sentence in read_conllu(path))

    def from_memory(self, given: Any, place: str) -> Sentence:
        return checked(super().from_memory(given, place))

    def question(self, given: Any, place: str) -> Sentence:
        [text] = fields(given, {"text": ["text", "sentence"]}, place)
        if not (words := text.split()):
            raise InputError("a text without a word was given; give words with spaces between them")
        return Sentence(words, [*range(len(words))], place)  # some tree: no model that can be asked looks at it

    def key(self, example: Sentence) -> str:
        return " ".join(example.words)

    def encode(self, examples: Sequence[Sentence], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(sub-words, the word from 0 that each belongs to, the head of each word, 0 for the root)"""
        return [[*tokenizer.encode_words(sentence.words), sentence.heads] for sentence in examples]

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """The best of all rules "the head stands n words further on", as counted in training."""
        [(common, _)] = Counter(shift for row in each_row(corpus.train) for shift in shifts(row[2])).most_common(1)
        found = [shift == common for row in each_row(corpus.valid) for shift in shifts(row[2])]
        return {f"always the word at {common:+d}" if common else "always the root": sum(found) / len(found)}

    def in_words(self, outputs: Tensor, asked: Asked, examples: Sequence[Sentence], asker: Predictor) -> list[Tree]:
        """The words of each text and the head of each, as in CoNLL-U; not with positions that need the tree itself."""
        model: Any = asker.model
        if model.encoder.position.needs_tree:
            raise InputError(
                f"this model has {model.config.position!r} positions, which are made from the heads themselves; "
                "ask a model with other positions"
            )
        best = outputs.argmax(dim=2).tolist()
        return [{"words": one.words, "heads": row[: len(one.words)]} for one, row in zip(examples, best, strict=True)]


def checked(sentence: Sentence) -> Sentence:
    """A sentence whose heads are a tree."""
    try:
        tree_paths(sentence.heads)
    except InputError as error:
        raise InputError(f"{sentence.place}: {error}") from None
    return sentence


def shifts(heads: list[int]) -> list[int]:
    """How many words further on each word's head stands; 0 for the root, which no word is from itself."""
    return [head - place if head else 0 for place, head in enumerate(heads, start=1)]
