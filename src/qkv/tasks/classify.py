"""Classification: label and text in, a class out; by attention over words and sentences, or by any backbone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.config import Tree, setting, to_call
from qkv.data import each_row
from qkv.errors import InputError, nearest
from qkv.folder import About, Loaded
from qkv.layers.heads import Pool
from qkv.models import Backbone, Headed, Hierarchical, Model
from qkv.objectives import Asked
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.predictor import Classifier, most_probable
from qkv.tasks.task import Task, TextConfig
from qkv.text import read_labelled
from qkv.text.examples import Labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import EOS, Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelledConfig(TextConfig):
    """How labelled texts become ids and batches."""

    max_length: int = setting(0, "tokens of a text, longer ones are cut and counted; 0 for the backbone's context")
    pool: Pool = setting("last", "whose state stands for a text: its last token's (GPT), its first, or their mean")
    lowercase: bool = setting(True, "with the model hierarchical: read capital letters as small ones")
    max_words: int = setting(50, "with hierarchical: tokens of a sentence; a longer one is cut into several")
    max_sentences: int = setting(200, "with hierarchical: sentences of a text; those after them are left out")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 1 or self.max_sentences < 1:
            raise ValueError("max_words and max_sentences must be at least 1")
        if self.max_length < 0:
            raise ValueError(
                f"max_length must be a number of tokens, or 0 for the whole context, not {self.max_length}"
            )


class Classify(Task):
    """Labelled texts to a classifier: hierarchical attention (Yang et al. 2016), or any backbone with a head on it.

    Hierarchical attention reads the words of each sentence. A backbone reads the text between two </s>, and its head
    (Radford et al. 2018, section 3.3) the state of the last, unless `pool` says otherwise.
    """

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
        self.cut = 0  # texts that were longer than max_length

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
        if self.by_sentence:
            return {}
        if self.data.max_length > config.max_length:
            raise InputError(
                f"data.max_length is {self.data.max_length}, but the model's context is {config.max_length} tokens; "
                "make it shorter, or leave it out"
            )
        return {"max_length": self.data.max_length or config.max_length}

    def choose(self, survey: Survey, device: Any, training: Any) -> Tree:
        """A backbone is tuned gently, and for a few epochs: it has learned before."""
        if self.by_sentence:
            return {}
        steps = max(1, survey.characters // 4 // 2048)
        return {
            "data": {"batch_tokens": 2048},
            "model": {"preset": "small", "dropout": 0.1},
            "training": {
                "learning_rate": 3e-4, "schedule": f"linear(warmup={min(100, max(1, steps // 3))})", "epochs": 4.0,
                "weight_decay": 0.01, "beta2": 0.98, "average": "none", "validate_every": 0,
            },
        }  # fmt: skip

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        return {"vocab_size": len(tokenizer), **({"n_classes": len(facts["labels"])} if self.by_sentence else {})}

    def build(self, config: Any, facts: About) -> Model:
        model = super().build(config, facts)
        head = {"n": len(facts["labels"])} | ({"pool": self.data.pool} if self.data.pool != "last" else {})
        return Headed(model, to_call("classes", head)) if isinstance(model, Backbone) else model

    def anew(self, start: Loaded, facts: About) -> tuple[str, ...]:
        return () if start.about.get("labels") == facts["labels"] else ("head.", "output.")

    def encode(self, examples: Sequence[Labelled], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(</s> words </s>, the label's number), or for hierarchical attention (words, sentence lengths, label)"""
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
        rows, most = tokenizer.encode_batch([document.text for document in examples]), facts["max_length"] - 2
        self.cut += sum(len(ids) > most for ids in rows)
        return [[[EOS, *ids[:most], EOS], label] for ids, label in zip(rows, labels, strict=True)]

    def remarks(self) -> list[str]:
        return [f"{self.cut:,} texts had more tokens than the model reads at once: cut"] if self.cut else []

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
        return getattr(outputs, "answer", outputs).argmax(dim=1), asked.labels

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[Any], classifier: Classifier) -> list[Tree]:
        """The label of each text and the probability of every label."""
        rows = getattr(outputs, "answer", outputs).softmax(dim=1).tolist()
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
