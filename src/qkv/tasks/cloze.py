"""Cloze reading: a document and a sentence with a hole in, the missing word out, found in the document."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from qkv.config import Tree
from qkv.data.examples import Ints
from qkv.folder import Loaded
from qkv.objectives.cloze import Cloze, ClozeBatch
from qkv.tasks.task import Task
from qkv.text.cloze import Ids, Question, known_words, number_words, parse_question, read_cloze
from qkv.text.tokenizer import PAD, Tokenizer


class ReadCloze(Task):
    """Cui et al. 2017, attention over attention: JSON lines of context, question with a hole, candidates, answer."""

    name = "cloze"
    architecture = "reader"
    objective_class = Cloze
    defaults = {  # noqa: RUF012
        "data": {"vocab_size": 8000, "batch_tokens": 16384},
        "model": {"preset": "small"},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=20)", "learning_rate": 2e-3, "clip": 5.0,
                     "epochs": 10.0, "patience": 4, "precision": "float32"},
    }  # fmt: skip
    files = "JSON lines of questions, for example: qkv train --task cloze train.jsonl --valid valid.jsonl"
    asks = '{"context": ["..."], "question": "... XXXXX ...", "candidates": ["..."]}'

    def read(self, path: Path) -> Iterable[Question]:
        return read_cloze(path)

    def key(self, example: Question) -> str:
        return example.book or " ".join(example.document)

    def texts(self, example: Question) -> list[str]:
        return [" ".join(known_words(example))]

    def encode(self, examples: Sequence[Question], tokenizer: Tokenizer, facts: Tree) -> list[Ids]:
        return number_words(examples, tokenizer)

    def size(self, encoded: Ids) -> tuple[int, ...]:
        return (len(encoded.document),)

    def collate(self, encoded: Sequence[Ids], numbers: Ints) -> ClozeBatch:
        columns = zip(*((one.document, one.question, one.candidates) for one in encoded), strict=True)
        document, question, candidates = (
            pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD) for rows in columns
        )
        return ClozeBatch(document, question, candidates, torch.tensor([one.answer for one in encoded]), numbers)

    def baselines(self, train: Sequence[Ids], valid: Sequence[Ids], loaded: Loaded) -> dict[str, float]:
        return {
            "most frequent candidate": sum(map(most_frequent, valid)) / len(valid),
            "last candidate": sum(map(last, valid)) / len(valid),
        }

    @torch.inference_mode()
    def predict(self, loaded: Loaded, texts: Sequence[str]) -> list[Tree]:
        """The most probable candidate of each question, and the probability of each one among the candidates."""
        found: list[Tree] = []
        for number, text in enumerate(texts, start=1):
            question = parse_question(text, f"question {number}")
            batch: Any = self.collate(number_words([question], loaded.tokenizer), None)  # type: ignore[arg-type]
            weights: Tensor = loaded.model(batch.document, batch.question).probability(batch.candidates)[0]
            p = (weights / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)).tolist()
            named = dict(zip(question.candidates, p, strict=True))
            found.append({"answer": max(named, key=lambda word: named[word]), "probabilities": named})
        return found


def most_frequent(one: Ids) -> float:
    """1 if the answer is the candidate that the document names most often; of several such ones, its share."""
    counts = {word: one.document.count(word) for word in one.candidates}
    best = [word for word in one.candidates if counts[word] == max(counts.values())]
    return (one.answer in best) / len(best)


def last(one: Ids) -> float:
    """1 if the answer is the candidate that the document names last."""
    return float(next(word for word in reversed(one.document) if word in one.candidates) == one.answer)
