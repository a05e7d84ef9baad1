"""The heads task: from CoNLL-U to a model that finds heads; sub-words inherit the place of their word."""

import json
import random
from pathlib import Path

import pytest
import torch

from qkv import tasks
from qkv.errors import InputError
from qkv.positions import depths, relations
from qkv.tasks.heads import Encoded, FindHeads, shifts
from qkv.text.conllu import Sentence
from qkv.text.tokenizer import Tokenizer
from qkv.training.settings import TextConfig

TASK = FindHeads(TextConfig())


def conllu(path: Path, trees: list[tuple[list[str], list[int]]]) -> Path:
    lines = []
    for words, heads in trees:
        for number, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
            lines.append(f"{number}\t{word}\t_\tX\t_\t_\t{head}\tdep\t_\t_")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_sub_words_stand_where_their_word_stands() -> None:
    """A hand-made tree of six words: the third and the sixth have several sub-words."""
    words, heads = ["the", "old", "gentleman", "saw", "a", "hippopotamus"], [3, 3, 4, 0, 6, 4]
    tokenizer = Tokenizer.train(["the old saw a " * 5], vocab_size=290)
    [one] = TASK.encode([Sentence(words, heads, "here")], tokenizer, {})
    pieces = [tokenizer.encode(word) for word in words]
    assert len(pieces[2]) > 1
    assert one.ids == [number for ids in pieces for number in ids]
    assert one.words == [word for word, ids in enumerate(pieces) for _ in ids]
    assert [one.ids[place] for place in one.first] == [ids[0] for ids in pieces]
    tree = TASK.collate([one], torch.arange(1).numpy()).tree
    assert tree is not None
    assert tree.depth[0].tolist() == [int(depths(heads)[word]) for word in one.words]
    expected = [[int(relations(heads)[i, j]) for j in one.words] for i in one.words]
    assert tree.relation[0].tolist() == expected


def test_a_batch_holds_its_rows_padded() -> None:
    batch = TASK.collate([Encoded([7, 8, 9], [0, 0, 1], [0, 1]), Encoded([7], [0], [0])], torch.arange(2).numpy())
    assert batch.ids.tolist() == [[7, 8, 9], [7, 0, 0]]
    assert batch.first.tolist() == [[0, 2], [0, -1]]
    assert batch.heads.tolist() == [[0, 1], [0, -1]]


def test_the_baseline_is_the_most_frequent_shift_of_training() -> None:
    next_word, chain = Encoded([7] * 4, [0, 1, 2, 3], [2, 3, 4, 0]), Encoded([7] * 3, [0, 1, 2], [0, 1, 2])
    assert shifts(next_word) == [1, 1, 1, 0]
    found = TASK.baselines([next_word, chain], [chain, next_word, next_word], None)  # type: ignore[arg-type]
    assert found == {"always the word at +1": pytest.approx(6 / 11)}


@pytest.mark.parametrize(
    ("heads", "what"), [([2, 1], "one root"), ([0, 0], "one root"), ([0, 3], "head 3"), ([0, 3, 2], "circle")]
)
def test_what_is_no_tree_is_refused_with_its_line(tmp_path: Path, heads: list[int], what: str) -> None:
    path = conllu(tmp_path / "bad.conllu", [(["fine"], [0]), (["w"] * len(heads), heads)])
    with pytest.raises(InputError, match=f"line 3.*{what}"):
        list(TASK.read(path))


def sentences(count: int, seed: int) -> list[tuple[list[str], list[int]]]:
    """Articles and adjectives belong to the next noun, nouns to the verb."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        words, heads, verb = [], [], 0
        for part in range(2):
            inner = ["the", *rng.sample(["old", "red", "sad"], rng.randint(0, 2))]
            noun = len(words) + len(inner) + 1
            words += [*inner, rng.choice(["dog", "cat", "man", "hat"])]
            heads += [noun] * len(inner) + [-1]
            if part == 0:
                words, heads, verb = [*words, rng.choice(["sees", "eats"])], [*heads, 0], len(words) + 1
        found.append((words, [verb if head == -1 else head for head in heads]))
    return found


def test_a_run_from_file_to_heads(tmp_path: Path) -> None:
    train = conllu(tmp_path / "train.conllu", sentences(400, 1))
    sizes = {"d_model": 32, "d_ff": 32, "layers": 1, "d_arc": 16, "dropout": 0.0}
    trained = tasks.train(
        train, task="heads", out=tmp_path / "model", quiet=True, data={"vocab_size": 320, "batch_tokens": 256},
        model=sizes, training={"steps": 120, "epochs": 0.0, "learning_rate": 0.01, "validate_every": 60},
    )  # fmt: skip
    [(name, baseline)] = json.loads((tmp_path / "model" / "results.json").read_text())["baselines"].items()
    assert name.startswith("always the word at")
    assert trained.best["accuracy"] > max(0.95, baseline + 0.2)
    [found] = tasks.predict(tmp_path / "model", ["the old dog eats the hat"])
    assert found == {"words": ["the", "old", "dog", "eats", "the", "hat"], "heads": [3, 3, 4, 0, 6, 4]}


def test_a_model_that_is_given_trees_cannot_be_asked_for_them(tmp_path: Path) -> None:
    train = conllu(tmp_path / "train.conllu", sentences(40, 1))
    tasks.train(
        train, task="heads", out=tmp_path / "model", quiet=True, data={"vocab_size": 320},
        model={"d_model": 16, "d_ff": 16, "layers": 1, "d_arc": 8, "position": "structural_relative"},
        training={"steps": 2, "epochs": 0.0},
    )  # fmt: skip
    with pytest.raises(InputError, match="made from the heads themselves"):
        tasks.predict(tmp_path / "model", ["the dog eats the hat"])
