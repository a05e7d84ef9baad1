"""Cloze reading: a document and a sentence with a hole in, the missing word out, found in the document."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from qkv.config import Tree
from qkv.data import each_row
from qkv.folder import About
from qkv.models import Reader
from qkv.objectives import Asked
from qkv.tasks.corpus import Corpus
from qkv.tasks.predictor import Predictor, most_probable
from qkv.tasks.task import Task
from qkv.text.cloze import Question, known_words, number_words, parse_question, read_cloze
from qkv.text.tokenizer import Tokenizer


class ReadCloze(Task):
    """Cui et al. 2017, attention over attention: JSON lines of context, question with a hole, candidates, answer."""

    name = "cloze"
    shape = "questions"
    example_class = Question
    kinds = (Reader,)
    architecture = "reader"
    objective = "cloze"
    figures = ("loss", "accuracy")
    score = "accuracy"
    defaults = {  # noqa: RUF012
        "data": {"vocab_size": 8000, "batch_tokens": 16384},
        "model": {"preset": "small"},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=20)", "learning_rate": 2e-3, "clip": 5.0,
                     "epochs": 10.0, "patience": 4, "precision": "float32"},
    }  # fmt: skip
    files = "JSON lines of questions, for example: qkv train --task cloze train.jsonl --valid valid.jsonl"
    asks = 'qkv predict \'{"context": ["..."], "question": "... XXXXX ...", "candidates": ["..."]}\''
    columns = 4

    def read(self, paths: Sequence[Path]) -> Iterator[Question]:
        return chain.from_iterable(map(read_cloze, paths))

    def question(self, given: Any, place: str) -> Question:
        line = given if isinstance(given, str) else json.dumps(given, default=str)
        return parse_question(line, place.replace("text", "question"))

    def key(self, example: Question) -> str:
        return example.book or " ".join(example.document)

    def texts(self, example: Question) -> list[str]:
        return [" ".join(known_words(example))]

    def encode(self, examples: Sequence[Question], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(document, question, candidates, answer)"""
        numbered = number_words(examples, tokenizer)
        return [[one.document, one.question, one.candidates, [one.answer]] for one in numbered]

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        rows = list(each_row(corpus.valid))
        return {
            "most frequent candidate": sum(map(most_frequent, rows)) / len(rows),
            "last candidate": sum(map(last, rows)) / len(rows),
        }

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[Question], _: Predictor) -> list[Tree]:
        """The most probable candidate of each question, and the probability of each one among the candidates."""
        found = []
        for row, question in zip(outputs.probability(asked.labels[0]), examples, strict=True):  # (B, C)
            p = row[: len(question.candidates)]
            p = (p / p.sum().clamp(min=torch.finfo(p.dtype).tiny)).tolist()
            found.append(most_probable("answer", question.candidates, p))
        return found


def most_frequent(row: list[list[int]]) -> float:
    """1 if the answer is the candidate that the document names most often; of several such ones, its share."""
    document, _, candidates, [answer] = row
    counts = {word: document.count(word) for word in candidates}
    best = [word for word in candidates if counts[word] == max(counts.values())]
    return (answer in best) / len(best)


def last(row: list[list[int]]) -> float:
    """1 if the answer is the candidate that the document names last."""
    document, _, candidates, [answer] = row
    return float(next(word for word in reversed(document) if word in candidates) == answer)
