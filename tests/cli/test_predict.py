"""qkv predict: a line for each line, the same answers from arguments, a file and standard input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv as package
from kit import FACTS, TEXTS, save_untrained_task, tokenizer

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def critic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that has learned next to nothing, which is enough to be asked."""
    place = tmp_path_factory.mktemp("critic")
    lines = [f"{('good', 'bad')[i % 2]}\tfilm {i} is {('fine', 'dull')[i % 2]} .\n" for i in range(60)]
    (place / "train.tsv").write_text("".join(lines))
    package.train(
        place / "train.tsv", task="classify", out=place / "critic", quiet=True, data={"vocab_size": 300},
        model={"d_embedding": 8, "d_model": 8}, training={"steps": 2, "threads": 1, "precision": "float32"},
    )  # fmt: skip
    return place / "critic"


def test_a_label_and_the_probability_of_each(qkv: Run, critic: Path) -> None:
    (answer,) = package.load(critic).predict(["film 3 is fine ."])
    (line,) = qkv("predict", "film 3 is fine .", "--model", critic).lines
    label, rest = line.split("\t")
    assert label == answer["label"]
    said = dict(pair.split("=") for pair in rest.split())
    assert next(iter(said)) == label, "the likeliest first"
    assert {name: pytest.approx(float(p), abs=5e-4) for name, p in said.items()} == answer["probabilities"]
    assert json.loads(qkv("predict", "film 3 is fine .", "--model", critic, "--json").out) == answer


def test_a_line_for_each_line(qkv: Run, critic: Path, tmp_path: Path) -> None:
    texts = ["film 3 is fine .", "", "film 4 is dull .", "  ", "dull"]
    expected = [qkv("predict", text, "--model", critic).lines[0] if text.strip() else "" for text in texts]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    assert qkv("predict", "texts.txt", "--model", critic).lines == expected
    assert qkv("predict", "--model", critic, stdin="\n".join(texts)).lines == expected
    assert qkv("predict", *filter(str.strip, texts), "--model", critic).lines == [line for line in expected if line]
    objects = [json.loads(line) for line in qkv("predict", "texts.txt", "--model", critic, "--json").lines]
    assert [bool(one) for one in objects] == [bool(text.strip()) for text in texts]


def test_what_cannot_be_asked_is_refused(qkv: Run, critic: Path, model: Path) -> None:
    result = qkv("predict", "7", "--model", model)
    assert result.code == 1
    assert "holds a model of the task 'translate'; ask it by qkv translate" in result.err
    result = qkv("predict", " ", "--model", critic)
    assert (result.code, result.out) == (1, "")
    assert "a text without a word was given" in result.err


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tokenizer(*TEXTS, size=300, kind="wordpiece")
    return save_untrained_task(tmp_path_factory.mktemp("judge") / "judge", "pair", words, FACTS["pair"])


@pytest.mark.parametrize(("name", "between"), [("pairs.tsv", "\t"), ("pairs.csv", ",")])
def test_a_table_whose_first_line_names_the_texts(
    qkv: Run, judge: Path, tmp_path: Path, name: str, between: str
) -> None:
    """As training reads it: other columns do not matter, and the first line is no pair."""
    rows = [["label", "sentence2", "sentence1"], ["yes", "two dogs", "a man"], ["no", "a red hat", "ein Mann"]]
    (tmp_path / name).write_text("".join(between.join(row) + "\n" for row in rows))
    alone = [qkv("predict", row[2], row[1], "--model", judge).lines[0] for row in rows[1:]]
    assert qkv("predict", name, "--model", judge).lines == alone
    (tmp_path / name).write_text("".join(between.join([row[2], row[1]]) + "\n" for row in rows[1:]) + "\n")
    assert qkv("predict", name, "--model", judge).lines == [*alone, ""]
    (tmp_path / name).write_text(between.join(rows[0]) + "\n" + between.join(rows[1][:2]) + "\n")
    result = qkv("predict", name, "--model", judge)
    assert (result.code, result.out) == (1, "")
    assert f"{name} line 2 has 2 cells, and the first line names 3; give each line as many" in result.err
