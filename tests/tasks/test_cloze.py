"""The cloze task: from a file of questions to a model that answers, beside its baselines."""

import json
import os
import random
from pathlib import Path

import pytest
import torch

from qkv import tasks
from qkv.errors import InputError
from qkv.folder import load
from qkv.objectives.cloze import Cloze
from qkv.tasks.cloze import ReadCloze, last, most_frequent
from qkv.text.cloze import Ids, read_cloze
from qkv.training.settings import TextConfig

DATA = Path(os.environ.get("QKV_DATA", Path(__file__).parents[3] / "shared" / "data")) / "cloze-children-books"
TASK = ReadCloze(TextConfig())


def ids(document: list[int], candidates: list[int], answer: int) -> Ids:
    return Ids(document, [3], candidates, answer)


def test_the_baselines_of_worked_questions() -> None:
    assert most_frequent(ids([5, 6, 5, 9, 6, 5], [5, 6], 5)) == 1
    assert most_frequent(ids([5, 6, 5, 9, 6, 5], [5, 6], 6)) == 0
    assert most_frequent(ids([5, 6, 7, 9, 9, 9], [5, 6, 7], 6)) == pytest.approx(1 / 3)  # three candidates are level
    assert last(ids([5, 6, 9], [5, 6], 6)) == 1
    assert last(ids([6, 5, 9], [5, 6], 6)) == 0


def test_a_batch_holds_its_rows_padded_with_zeros() -> None:
    batch = TASK.collate([Ids([5, 6, 7], [3], [5], 5), Ids([8], [3, 9], [8, 4], 4)], torch.arange(2).numpy())
    assert batch.document.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch.question.tolist() == [[3, 0], [3, 9]]
    assert batch.candidates.tolist() == [[5, 0], [8, 4]]
    assert batch.answer.tolist() == [5, 4]


def questions(path: Path, count: int, seed: int) -> Path:
    """ "Mia cup . Ben pen ." and "XXXXX pen .": names are drawn anew for each file."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        names = ["".join(rng.choices("abcdefghij", k=5)).title() for _ in range(3)]
        things = rng.sample(["cup", "pen", "hat"], 3)
        answer = rng.randrange(3)
        context = [f"{name} {thing} ." for name, thing in zip(names, things, strict=True)]
        asked = f"XXXXX {things[answer]} ."
        record = {"context": context, "question": asked, "answer": names[answer], "candidates": sorted(names)}
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_run_from_file_to_answer(tmp_path: Path) -> None:
    train, valid = questions(tmp_path / "train.jsonl", 300, 1), questions(tmp_path / "valid.jsonl", 60, 2)
    sizes = {"d_model": 16, "d_hidden": 16, "dropout": 0.0}
    trained = tasks.train(
        train, task="cloze", valid=[valid], out=tmp_path / "model", quiet=True,
        data={"vocab_size": 320, "batch_tokens": 512}, model=sizes,
        training={"steps": 150, "epochs": 0.0, "learning_rate": 0.02, "validate_every": 75},
    )  # fmt: skip
    results = json.loads((tmp_path / "model" / "results.json").read_text())
    assert set(results["baselines"]) == {"most frequent candidate", "last candidate"}
    assert results["baselines"]["most frequent candidate"] == pytest.approx(1 / 3)
    assert trained.best["accuracy"] > 0.8  # unseen names; chance, and every baseline, is one in three
    asked = {"context": ["Zoe cup .", "Ann hat ."], "question": "XXXXX hat ."}
    [answer] = tasks.predict(tmp_path / "model", [json.dumps(asked | {"candidates": ["Zoe", "Ann"]})])
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    assert answer["answer"] == max(answer["probabilities"], key=answer["probabilities"].get)
    with pytest.raises(InputError, match="question 1 is not a cloze question"):
        tasks.predict(tmp_path / "model", ["Who has the hat?"])
    loaded = load(tmp_path / "model")
    encoded = TASK.encode(list(read_cloze(valid)), loaded.tokenizer, {})
    inputs, labels = Cloze().prepare(TASK.collate(encoded, torch.arange(60).numpy()))
    right = Cloze().loss(loaded.model(*inputs), labels).parts["accuracy"].item()
    assert right / 60 == pytest.approx(trained.best["accuracy"])


def test_the_baselines_of_the_childrens_books_are_those_counted_from_the_words() -> None:
    path = DATA / "valid.jsonl.gz"
    if not path.exists():
        pytest.skip("the cloze questions are not on this machine; name their folder in QKV_DATA")
    asked = list(read_cloze(path))
    tokenizer = TASK.learn_tokenizer(asked[:50])
    found = TASK.baselines([], TASK.encode(asked, tokenizer, {}), None)  # type: ignore[arg-type]
    ends = [max(q.candidates, key=lambda word: len(q.document) - q.document[::-1].index(word)) for q in asked]
    right = sum(word == q.answer for word, q in zip(ends, asked, strict=True))
    assert found["last candidate"] == pytest.approx(right / len(asked))
    assert found["most frequent candidate"] == pytest.approx(0.324, abs=0.02)  # 0.324 in the set's own SOURCE.md
