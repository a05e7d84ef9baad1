"""What tasks share whose answer is one of some labels; and the simple answers that a model must beat."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from qkv.config import Tree, parse_call, to_call
from qkv.data import each_row
from qkv.errors import InputError, nearest
from qkv.folder import About
from qkv.models import Backbone
from qkv.objectives import Asked
from qkv.objectives.answers import answered
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.on_backbone import OnBackbone
from qkv.tasks.predictor import Classifier, most_probable
from qkv.text.tokenizer import Tokenizer

OF_CLASSES = ("classes", "concat_classes", "attention_classes")  # heads whose answer is a class


class OneLabel(OnBackbone):
    """Examples that have a `label` each, "" where nobody knows it; rows whose last column is its number."""

    objective = "classes"
    figures = ("loss", "accuracy", "macro_f1", "mcc")
    score = "accuracy"
    opens = Classifier

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        labels = sorted({example.label for example in survey.train})
        if len(labels) < 2:
            raise InputError(f"every document has the label {labels[0]!r}; give documents of two classes or more")
        return {"labels": labels}

    def heads(self, facts: About) -> dict[str, str]:
        assert issubclass(self.model, Backbone)
        asked, pool = getattr(self.data, "head", ""), self.data.pool
        name, options = parse_call(asked or ("classes" if pool else self.model.class_head))
        if name not in OF_CLASSES:
            raise InputError(f"data.head is {asked!r}, which names no class of a text; {nearest(name, OF_CLASSES)}")
        if pool and name != "classes":
            raise InputError(f"data.pool is {pool!r}, and a head {name} has its own way; leave one of them out")
        options["n"] = len(facts["labels"])
        return {"classes": self.head(name, **options) if name == "classes" else to_call(name, options)}

    def numbers(self, examples: Sequence[Any], facts: About) -> list[list[int]]:
        """The number of each example's label, as a column."""
        numbers = {label: number for number, label in enumerate(facts["labels"])} | {"": 0}
        for example in examples:
            if example.label not in numbers:
                raise InputError(
                    f"{example.place} has the label {example.label!r}, which no training document has; "
                    f"{nearest(example.label, facts['labels'])}"
                )
        return [[numbers[example.label]] for example in examples]

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
        """The label of each example and the probability of every label."""
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
