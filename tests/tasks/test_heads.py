"""The heads task: from CoNLL-U to a model that finds heads; sub-words inherit the place of their word."""

import json
from pathlib import Path
from typing import Any

import pytest

import qkv
from corpora import conllu, sentences
from kit import tokenizer
from qkv.data import Rows, RowsInMemory
from qkv.errors import InputError
from qkv.tasks import TextConfig
from qkv.tasks.heads import FindHeads, shifts
from qkv.text.conllu import Sentence

TASK = FindHeads(TextConfig())


def write(path: Path, trees: list[tuple[list[str], list[int]]]) -> Path:
    path.write_text(conllu(trees), encoding="utf-8")
    return path


def test_sub_words_know_their_word() -> None:
    """A hand-made tree of six words: the third and the sixth have several sub-words."""
    words, heads = ["the", "old", "gentleman", "saw", "a", "hippopotamus"], [3, 3, 4, 0, 6, 4]
    own = tokenizer("the old saw a " * 5, size=290)
    [(ids, place, governed)] = TASK.encode([Sentence(words, heads, "here")], own, {})
    pieces = [own.encode(word) for word in words]
    assert len(pieces[2]) > 1
    assert ids == [number for ids in pieces for number in ids]
    assert place == [word for word, ids in enumerate(pieces) for _ in ids]
    assert governed == heads


class Halves:
    """Rows to train and to validate on, and no more of a corpus."""

    def __init__(self, train: Rows, valid: Rows) -> None:
        self.train, self.valid = train, valid


def test_the_baseline_is_the_most_frequent_shift_of_training() -> None:
    next_word, chain = [[7] * 4, [0, 1, 2, 3], [2, 3, 4, 0]], [[7] * 3, [0, 1, 2], [0, 1, 2]]
    assert shifts(next_word[2]) == [1, 1, 1, 0]
    halves: Any = Halves(RowsInMemory([next_word, chain]), RowsInMemory([chain, next_word, next_word]))
    assert TASK.baselines(halves) == {"always the word at +1": pytest.approx(6 / 11)}


@pytest.mark.parametrize(
    ("heads", "what"), [([2, 1], "one root"), ([0, 0], "one root"), ([0, 3], "head 3"), ([0, 3, 2], "circle")]
)
def test_what_is_no_tree_is_refused_with_its_line(tmp_path: Path, heads: list[int], what: str) -> None:
    path = write(tmp_path / "bad.conllu", [(["fine"], [0]), (["w"] * len(heads), heads)])
    with pytest.raises(InputError, match=f"line 3.*{what}"):
        list(TASK.read([path]))
    with pytest.raises(InputError, match=f"sentence 7: .*{what}"):
        TASK.from_memory((["w"] * len(heads), heads), "sentence 7")


def test_a_run_from_file_to_heads(tmp_path: Path) -> None:
    train = write(tmp_path / "train.conllu", sentences(400, 1))
    sizes = {"d_model": 32, "d_ff": 32, "layers": 1, "d_arc": 16, "dropout": 0.0}
    trained = qkv.train(
        train, task="heads", out=tmp_path / "model", quiet=True, data={"vocab_size": 320, "batch_tokens": 256},
        model=sizes, training={"steps": 120, "epochs": 0.0, "learning_rate": 0.01, "validate_every": 60},
    )  # fmt: skip
    [(name, baseline)] = json.loads((tmp_path / "model" / "results.json").read_text())["baselines"].items()
    assert name.startswith("always the word at")
    assert trained.best["accuracy"] > max(0.95, baseline + 0.2)
    found = qkv.load(tmp_path / "model").predict("the old dog eats the hat")
    assert found == {"words": ["the", "old", "dog", "eats", "the", "hat"], "heads": [3, 3, 4, 0, 6, 4]}


def test_a_model_that_is_given_trees_cannot_be_asked_for_them(tmp_path: Path) -> None:
    train = write(tmp_path / "train.conllu", sentences(40, 1))
    qkv.train(
        train, task="heads", out=tmp_path / "model", quiet=True, data={"vocab_size": 320},
        model={"d_model": 16, "d_ff": 16, "layers": 1, "d_arc": 8, "position": "structural_relative"},
        training={"steps": 2, "epochs": 0.0},
    )  # fmt: skip
    with pytest.raises(InputError, match="made from the heads themselves"):
        qkv.load(tmp_path / "model").predict("the dog eats the hat")
