"""Classification: label and text in, a class out; by attention over words and sentences, or by any backbone."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.config import Tree, setting
from qkv.data import each_row
from qkv.errors import InputError, nearest
from qkv.folder import About, Loaded
from qkv.models import Backbone, Hierarchical, Model
from qkv.objectives import Asked
from qkv.objectives.answers import answered
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.on_backbone import BackboneConfig, OnBackbone
from qkv.tasks.predictor import Classifier, most_probable
from qkv.text import read_labelled
from qkv.text.examples import Labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelledConfig(BackboneConfig):
    """How labelled texts become ids and batches."""

    lowercase: bool = setting(True, "with the model hierarchical: read capital letters as small ones")
    max_words: int = setting(50, "with hierarchical: tokens of a sentence; a longer one is cut into several")
    max_sentences: int = setting(200, "with hierarchical: sentences of a text; those after them are left out")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 1 or self.max_sentences < 1:
            raise ValueError("max_words and max_sentences must be at least 1")


class Classify(OnBackbone):
    """Labelled texts to a classifier: hierarchical attention (Yang et al. 2016), or any backbone with a head on it."""

    name = "classify"
    shape = "labelled"
    example_class = Labelled
    kinds = (Hierarchical, Backbone)
    architecture = "hierarchical"
    objective = "classes"
    figures = ("loss", "accuracy", "macro_f1", "mcc")
    score = "accuracy"
    data_class = LabelledConfig
    defaults = {  # noqa: RUF012
        "data": {"batch_tokens": 16384},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=20)", "learning_rate": 2e-3, "epochs": 20.0,
                     "patience": 6, "precision": "float32"},
    }  # fmt: skip
    files = "files of label and text (tsv, csv, jsonl, conllu), for example: qkv train reviews.tsv --task classify"
    opens = Classifier

    def __init__(self, data: LabelledConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.by_sentence = issubclass(self.model, Hierarchical)
        self.columns = 3 if self.by_sentence else 2

    def read(self, paths: Sequence[Path]) -> Iterator[Labelled]:
        return read_labelled(paths)

    def question(self, text: str, place: str) -> Labelled:
        if not text.strip() or not self.sentences(text):
            raise InputError("a text without a word was given; give at least one sentence")
        return Labelled("", text, place)

    def texts(self, example: Labelled) -> list[str]:
        return self.sentences(example.text) if self.by_sentence else [example.text]

    def sentences(self, text: str) -> list[str]:
        return [one.lower() if self.data.lowercase else one for one in sentences(text)]

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        labels = sorted({document.label for document in survey.train})
        if len(labels) < 2:
            raise InputError(f"every document has the label {labels[0]!r}; give documents of two classes or more")
        lowercase, words, sentences = self.data.lowercase, self.data.max_words, self.data.max_sentences
        return {"labels": labels, "lowercase": lowercase, "max_words": words, "max_sentences": sentences}

    def bounds(self, config: Any) -> About:
        return {} if self.by_sentence else super().bounds(config)

    def choose(self, survey: Survey, device: Any, training: Any) -> Tree:
        return {} if self.by_sentence else super().choose(survey, device, training)

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        return {"vocab_size": len(tokenizer), **({"n_classes": len(facts["labels"])} if self.by_sentence else {})}

    def heads(self, facts: About) -> dict[str, str]:
        return {} if self.by_sentence else {"classes": self.head("classes", n=len(facts["labels"]))}

    def anew(self, start: Loaded, facts: About, heads: Mapping[str, str]) -> tuple[str, ...]:
        if self.by_sentence:
            return () if start.about.get("labels") == facts["labels"] else ("output.",)
        return super().anew(start, facts, heads)

    def encode(self, examples: Sequence[Labelled], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(the text in its frame, its label), or for hierarchical attention (words, sentence lengths, label)."""
        numbers = {label: number for number, label in enumerate(facts["labels"])} | {"": 0}
        for document in examples:
            if document.label not in numbers:
                raise InputError(
                    f"{document.place} has the label {document.label!r}, which no training document has; "
                    f"{nearest(document.label, facts['labels'])}"
                )
        labels = [[numbers[document.label]] for document in examples]
        if self.by_sentence:
            cut = [self.by_sentences(document.text, tokenizer) for document in examples]
            parted = zip(cut, labels, strict=True)
            return [[[*chain.from_iterable(parts)], [len(part) for part in parts], label] for parts, label in parted]
        rows = tokenizer.encode_batch([document.text for document in examples])
        framed = self.framed([[ids] for ids in rows], tokenizer, facts)
        return [[ids, label] for ids, label in zip(framed, labels, strict=True)]

    def by_sentences(self, text: str, tokenizer: Tokenizer) -> list[list[int]]:
        """The ids of each sentence; a sentence that is too long becomes several."""
        most, rows = self.data.max_words, tokenizer.encode_batch(self.sentences(text))
        cut = [row[i : i + most] for row in rows for i in range(0, len(row), most)]
        return cut[: self.data.max_sentences]

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        (words, labels), (asked, gold) = (
            zip(*((row[0], row[-1][0]) for row in each_row(rows)), strict=True) for rows in (corpus.train, corpus.valid)
        )
        found = {"majority class": majority(labels, gold)}
        return found | bag_of_words(words, labels, asked, gold, vocab_size=len(corpus.tokenizer))

    def answers(self, outputs: Any, asked: Asked) -> tuple[Tensor, Tensor] | None:
        if asked.labels.dim() > 1:  # another objective was asked first, or alone
            return None
        return answered(outputs, "classes").argmax(dim=1), asked.labels

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[Any], classifier: Classifier) -> list[Tree]:
        """The label of each text and the probability of every label."""
        rows = answered(outputs, "classes").softmax(dim=1).tolist()
        return [most_probable("label", classifier.about["labels"], row) for row in rows]


def majority(train: Sequence[int], valid: Sequence[int]) -> float:
    """Always the most frequent training label."""
    [(label, _)] = Counter(train).most_common(1)
    return sum(one == label for one in valid) / len(valid)


def bag_of_words(
    train: Sequence[Sequence[int]], labels: Sequence[int], valid: Sequence[Sequence[int]], gold: Sequence[int],
    *, vocab_size: int,
) -> dict[str, float]:  # fmt: skip
    """Pang et al. 2002: logistic regression on which words a document has, not how often nor where; each document is a
    row of length 1. Nothing, where scikit-learn is not installed."""
    try:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import Normalizer
    except ImportError:
        return {}
    if len(set(labels)) < 2:
        return {}
    occurrences = CountVectorizer(analyzer=list, binary=True, lowercase=False, vocabulary=range(vocab_size))
    learned = make_pipeline(occurrences, Normalizer(), LogisticRegression(max_iter=1000)).fit(train, labels)
    return {"bag of words": float(learned.score(valid, gold))}
