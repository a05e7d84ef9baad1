"""The cloze task: from a file of questions to a model that answers, beside its baselines."""

import json
from pathlib import Path

import pytest

import qkv
from corpora import CORPORA
from kit import real
from qkv.data import RowsInMemory
from qkv.errors import InputError
from qkv.folder import load
from qkv.objectives import Cloze
from qkv.tasks import TextConfig
from qkv.tasks.cloze import ReadCloze, last, most_frequent
from qkv.tasks.corpus import learn_tokenizer
from qkv.text.cloze import read_cloze

TASK = ReadCloze(TextConfig())


def row(document: list[int], candidates: list[int], answer: int) -> list[list[int]]:
    return [document, [3], candidates, [answer]]


def test_the_baselines_of_worked_questions() -> None:
    assert most_frequent(row([5, 6, 5, 9, 6, 5], [5, 6], 5)) == 1
    assert most_frequent(row([5, 6, 5, 9, 6, 5], [5, 6], 6)) == 0
    assert most_frequent(row([5, 6, 7, 9, 9, 9], [5, 6, 7], 6)) == pytest.approx(1 / 3)  # three candidates are level
    assert last(row([5, 6, 9], [5, 6], 6)) == 1
    assert last(row([6, 5, 9], [5, 6], 6)) == 0


def test_a_run_from_file_to_answer(tmp_path: Path) -> None:
    train, valid = CORPORA["cloze"].write(tmp_path, 300, 1), CORPORA["cloze"].write(tmp_path, 60, 2)
    sizes = {"d_model": 16, "d_hidden": 16, "dropout": 0.0}
    trained = qkv.train(
        train, task="cloze", valid=[valid], out=tmp_path / "model", quiet=True,
        data={"vocab_size": 320, "batch_tokens": 512}, model=sizes,
        training={"steps": 150, "epochs": 0.0, "learning_rate": 0.02, "validate_every": 75},
    )  # fmt: skip
    results = json.loads((tmp_path / "model" / "results.json").read_text())
    assert set(results["baselines"]) == {"most frequent candidate", "last candidate"}
    assert results["baselines"]["most frequent candidate"] == pytest.approx(1 / 3)
    assert trained.best["accuracy"] > 0.8  # unseen names; chance, and every baseline, is one in three
    reader = qkv.load(tmp_path / "model")
    asked = {"context": ["Zoe cup .", "Ann hat ."], "question": "XXXXX hat .", "candidates": ["Zoe", "Ann"]}
    answer = reader.predict(json.dumps(asked))
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    assert answer["answer"] == max(answer["probabilities"], key=answer["probabilities"].get)
    with pytest.raises(InputError, match="question 1 is not a cloze question"):
        reader.predict("Who has the hat?")
    loaded = load(tmp_path / "model")
    rows = RowsInMemory(TASK.encode(list(read_cloze(valid)), loaded.tokenizer, {}))
    assert TASK.measure(loaded.model, Cloze(), TASK.validation(rows))["accuracy"] == trained.best["accuracy"]
    answers = reader.predict(valid.read_text().splitlines())
    right = [json.loads(line)["answer"] for line in valid.read_text().splitlines()]
    found = sum(one["answer"] == word for one, word in zip(answers, right, strict=True))
    assert found / 60 == pytest.approx(trained.best["accuracy"])


def test_the_baselines_of_the_childrens_books_are_those_counted_from_the_words() -> None:
    asked = list(read_cloze(real("cloze-children-books", "valid.jsonl.gz")))
    tokenizer = learn_tokenizer(TASK.data, map(TASK.texts, asked[:50]))
    rows = TASK.encode(asked, tokenizer, {})
    ends = [max(q.candidates, key=lambda word: len(q.document) - q.document[::-1].index(word)) for q in asked]
    right = sum(word == q.answer for word, q in zip(ends, asked, strict=True))
    assert sum(map(last, rows)) == right
    assert sum(map(most_frequent, rows)) / len(rows) == pytest.approx(0.324, abs=0.02)  # in its SOURCE.md
