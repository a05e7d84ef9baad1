"""Document classification: label and text in, a class out, by attention over words and over sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.config import Tree, setting
from qkv.data.examples import Ints
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Hierarchical
from qkv.objectives.classification import Classification, DocumentBatch
from qkv.tasks import baselines
from qkv.tasks.task import Task
from qkv.text import Labelled, read_labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import PAD, Tokenizer
from qkv.training.settings import TextConfig

UNKNOWN = -1  # the class of a document that nobody has labelled
EPOCHS, WIDTH = 5, 50  # of the baselines that are learned: one more of either changes little


@dataclass(frozen=True, kw_only=True)
class DocumentConfig(TextConfig):
    """How documents become ids and batches."""

    lowercase: bool = setting(True, "read capital letters as small ones")
    max_words: int = setting(50, "tokens of a sentence; a longer one is cut into several")
    max_sentences: int = setting(200, "sentences of a document; those after them are left out")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 1 or self.max_sentences < 1:
            raise ValueError("max_words and max_sentences must be at least 1")


@dataclass(frozen=True)
class Encoded:
    """The ids of each sentence of a document, and the number of its class."""

    sentences: list[list[int]]
    label: int

    @property
    def words(self) -> list[int]:
        return [word for sentence in self.sentences for word in sentence]


class Classify(Task):
    """Yang et al. 2016, hierarchical attention networks for document classification: files of label and text."""

    name = "classify"
    architecture = "hierarchical"
    objective_class = Classification
    data_class = DocumentConfig
    defaults = {  # noqa: RUF012
        "data": {"batch_tokens": 16384},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=20)", "learning_rate": 2e-3, "epochs": 20.0,
                     "patience": 6, "precision": "float32"},
    }  # fmt: skip
    files = "files of label, tab, text, or .conllu, for example: qkv train --task classify train.tsv --valid valid.tsv"
    asks = "a text"

    def read(self, path: Path) -> Iterable[Labelled]:
        return read_labelled([path])

    def key(self, example: Labelled) -> str:
        return example.text

    def texts(self, example: Labelled) -> list[str]:
        return self.sentences(example.text)

    def sentences(self, text: str) -> list[str]:
        return [one.lower() if self.data.lowercase else one for one in sentences(text)]

    def facts(self, train: Sequence[Labelled]) -> Tree:
        labels = sorted({document.label for document in train})
        if len(labels) < 2:
            raise InputError(f"every document has the label {labels[0]!r}; give documents of two classes or more")
        return {
            "labels": labels,
            **{name: getattr(self.data, name) for name in ("lowercase", "max_words", "max_sentences")},
        }

    def fitting(self, facts: Tree, tokenizer: Tokenizer) -> Tree:
        return {"vocab_size": len(tokenizer), "n_classes": len(facts["labels"])}

    def encode(self, examples: Sequence[Labelled], tokenizer: Tokenizer, facts: Tree) -> list[Encoded]:
        numbers = {label: number for number, label in enumerate(facts["labels"])}
        for document in examples:
            if document.label not in numbers:
                raise InputError(f"{document.place} has the label {document.label!r}, which no training document has")
        return [Encoded(self.ids(document.text, tokenizer), numbers[document.label]) for document in examples]

    def ids(self, text: str, tokenizer: Tokenizer) -> list[list[int]]:
        """The ids of each sentence; a sentence that is too long becomes several."""
        most, rows = self.data.max_words, tokenizer.encode_batch(self.sentences(text))
        cut = [row[i : i + most] for row in rows for i in range(0, len(row), most)]
        return cut[: self.data.max_sentences]

    def size(self, encoded: Encoded) -> tuple[int, ...]:
        return (len(encoded.words),)

    def collate(self, encoded: Sequence[Encoded], numbers: Ints) -> DocumentBatch:
        n = max(len(one.sentences) for one in encoded)
        s = max(len(sentence) for one in encoded for sentence in one.sentences)
        documents = torch.full((len(encoded), n, s), PAD)
        for i, one in enumerate(encoded):
            for j, sentence in enumerate(one.sentences):
                documents[i, j, : len(sentence)] = torch.tensor(sentence)
        return DocumentBatch(documents, torch.tensor([one.label for one in encoded]), numbers)

    def baselines(self, train: Sequence[Encoded], valid: Sequence[Encoded], loaded: Loaded) -> dict[str, float]:
        labels, gold = ([one.label for one in part] for part in (train, valid))
        words, asked = ([one.words for one in part] for part in (train, valid))
        c = loaded.model.config
        found = {
            "majority class": baselines.majority(labels, gold),
            "bag of words": baselines.bag_of_words(words, labels, asked, gold, vocab_size=c.vocab_size),
        }
        batches = [self.batches(part) for part in (train, valid)]
        for name, pooling in (("mean of embeddings", "mean"), ("plain attention over words", "attention")):
            flat = replace(c, levels=1, encoder="none", d_embedding=WIDTH, d_model=WIDTH, pooling=pooling)
            found[name] = baselines.learned(Hierarchical(flat), Classification(), *batches, epochs=EPOCHS)
        return found

    def classes(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return outputs.argmax(dim=1), labels

    @torch.inference_mode()
    def predict(self, loaded: Loaded, texts: Sequence[str]) -> list[Tree]:
        """The label of each text and the probability of every label."""
        encoded = [Encoded(self.ids(text, loaded.tokenizer), UNKNOWN) for text in texts]
        found: list[Tree] = []
        for one in encoded:
            if not one.sentences:
                raise InputError("a text without a word was given; give at least one sentence")
            documents = self.collate([one], None).documents  # type: ignore[arg-type]
            p: Any = loaded.model(documents).softmax(dim=1)[0].tolist()
            named = dict(zip(loaded.about["labels"], p, strict=True))
            found.append({"label": max(named, key=lambda label: named[label]), "probabilities": named})
        return found
