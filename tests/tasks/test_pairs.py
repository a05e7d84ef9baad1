"""Two texts: their ids and segments, what is cut, numbers, both orders, and answers in every way to ask."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
import torch

import qkv
from corpora import CORPORA
from kit import close, real, tokenizer
from qkv.errors import InputError
from qkv.models import GPT2, Bert, Roberta
from qkv.opening import score_files
from qkv.tasks.on_backbone import BackboneConfig
from qkv.tasks.pairs import JudgePairs, RatePairs, SimilarityConfig, in_common
from qkv.text.examples import LabelledPair
from qkv.text.tokenizer import BOS, EOS

WORDS = tokenizer("the cat sat on the mat and the dog ran", size=300)
FACTS: Any = {"labels": ["no", "yes"], "max_length": 12}
SMALL = {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 64, "dropout": 0.0}


def encoded(model: type[Any], *texts: tuple[str, str], **facts: Any) -> tuple[list[Any], list[str]]:
    task = JudgePairs(BackboneConfig(), model)
    rows = task.encode([LabelledPair(*pair, "yes", "here") for pair in texts], WORDS, {**FACTS, **facts})
    return rows, task.remarks()


def test_both_texts_stand_in_the_frame_of_the_backbone() -> None:
    a, b = WORDS.encode("the cat"), WORDS.encode("the dog")
    for model, expected in (
        (Bert, [BOS, *a, EOS, *b, EOS]),
        (Roberta, [BOS, *a, EOS, EOS, *b, EOS]),
        (GPT2, [EOS, *a, EOS, *b, EOS]),
    ):
        rows, remarks = encoded(model, ("the cat", "the dog"))
        assert rows == [[expected, [1]]]
        assert not remarks


def test_the_longer_text_is_cut_and_that_is_said() -> None:
    long = "the cat sat on the mat and the dog ran"
    rows, remarks = encoded(Bert, ("the cat", long), (long, "the cat"), ("a", "b"))
    assert [len(ids) for ids, _ in rows[:2]] == [12, 12]
    assert rows[0][0][1 : 1 + len(WORDS.encode("the cat"))] == WORDS.encode("the cat")
    assert remarks == ["2 texts had more tokens than the model reads at once: cut"]


def test_a_label_of_another_set_is_refused() -> None:
    with pytest.raises(InputError, match=r"b.tsv line 3 has the label 'maybe', which no training document has"):
        JudgePairs(BackboneConfig(), Bert).encode([LabelledPair("a", "b", "maybe", "b.tsv line 3")], WORDS, FACTS)


@pytest.mark.parametrize(("symmetric", "columns"), [(False, 2), (True, 3)])
def test_a_number_is_kept_to_the_bit(symmetric: bool, columns: int) -> None:
    task = RatePairs(SimilarityConfig(symmetric=symmetric), GPT2)
    [row] = task.encode([LabelledPair("the cat", "dog", "3.8", "")], WORDS, FACTS)
    assert len(row) == task.columns == columns
    upper, lower = row[-1]
    assert torch.tensor([lower, upper], dtype=torch.uint16).view(torch.float32).item() == pytest.approx(3.8, rel=1e-7)


def test_both_orders_give_the_same_likeness(tmp_path: Path) -> None:
    """With a model that reads one way; without `symmetric` it does not."""
    pairs = [(f"{n} dogs ran", f"{n % 7} cats sat", n % 5) for n in range(40)]
    for symmetric in (True, False):
        out = tmp_path / str(symmetric)
        qkv.train(
            rated_pairs=pairs, architecture="gpt2", out=out, quiet=True, model=SMALL,
            data={"symmetric": symmetric, "vocab_size": 300}, training={"steps": 3, "learning_rate": 0.01},
        )  # fmt: skip
        rate = qkv.load(out)
        one, other = rate.predict([("3 dogs", "2 cats"), ("2 cats", "3 dogs")])
        assert (abs(one["score"] - other["score"]) < 1e-5) == symmetric


def test_what_was_measured_is_what_is_predicted(tmp_path: Path) -> None:
    """The mean squared error, and scipy's correlations, of a loop over `predict`."""
    tiny = CORPORA["similarity"]
    file = tiny.write(tmp_path, 30)
    qkv.train(file, task="similarity", out=tmp_path / "m", **tiny.settings(steps=8))
    lines = [line.split("\t") for line in file.read_text().splitlines()]
    gold = [float(number) for *_, number in lines]
    found = [qkv.load(tmp_path / "m", engine="float32").predict((first, second))["score"] for first, second, _ in lines]
    measured = score_files(tmp_path / "m", file)
    errors = [(a - b) ** 2 for a, b in zip(found, gold, strict=True)]
    assert measured["loss"] == pytest.approx(sum(errors) / len(errors), rel=1e-4)
    assert measured["pearson"] == pytest.approx(scipy.stats.pearsonr(found, gold).statistic, abs=1e-4)
    assert measured["spearman"] == pytest.approx(scipy.stats.spearmanr(found, gold).statistic, abs=1e-4)
    results = json.loads((tmp_path / "m" / "results.json").read_text())
    assert set(results["baselines"]) == {"words in common", "mean"}


def test_words_in_common_by_hand() -> None:
    assert in_common("A man sings.", "the man SINGS!") == pytest.approx(2 * 2 / 6)
    assert in_common("", "") == 0


def test_a_pair_is_asked_in_many_ways(command: Callable[..., Any], tmp_path: Path) -> None:
    """A tuple, a dict, a line with a tab, a line of JSON; two arguments, a file, standard input: one answer."""
    tiny = CORPORA["pair"]
    qkv.train(tiny.write(tmp_path), task="pair", out=tmp_path / "model", **tiny.settings(steps=2))
    judge, pair = qkv.load(tmp_path / "model"), ("the dog sees 7", "a dog runs")
    answer = judge.predict(pair)
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    named = {"sentence1": pair[0], "sentence2": pair[1]}
    for given in ("\t".join(pair), named, json.dumps(named), {"premise": pair[0], "hypothesis": pair[1]}):
        assert judge.predict(given) == answer
    for found in judge.predict([pair, "\t".join(pair)]):  # of two rows, products are rounded in another way
        assert found["label"] == answer["label"]
        assert found["probabilities"] == pytest.approx(answer["probabilities"], abs=1e-6)
    said = command("predict", *pair)
    assert said.lines[0].split("\t")[0] == answer["label"], said.err
    (tmp_path / "pairs.txt").write_text("\t".join(pair) + "\n\n" + "\t".join(pair) + "\n")
    assert command("predict", "pairs.txt").lines == [said.lines[0], "", said.lines[0]]
    assert command("predict", stdin="\t".join(pair)).lines == said.lines
    assert json.loads(command("predict", *pair, "--json").out) == answer
    wrong = command("predict", "one text")
    assert (wrong.code, "where 2 were expected" in wrong.err) == (1, True)


def test_gpt_adds_the_states_of_both_orders() -> None:
    """Radford et al. 2018, section 3.3: the sum of what the head says is the head of the summed states."""
    task = RatePairs(SimilarityConfig(symmetric=True), GPT2)
    config = GPT2.config_class(vocab_size=len(WORDS), **{**SMALL, "layers": 2})
    torch.manual_seed(0)
    model = task.build(config, task.heads({})).eval()
    [row] = task.encode([LabelledPair("the cat", "dog ran", "", "")], WORDS, FACTS)
    head: Any = model.heads["number"]
    with torch.no_grad():
        head.output.bias.fill_(0.25)
        states = [model(torch.tensor([ids])).hidden[0, -1] for ids in row[:2]]
        said = sum(model(torch.tensor([ids])).answer("number")[0] for ids in row[:2])
        close(said, head.output.weight[0] @ (states[0] + states[1]) + 2 * 0.25)


@pytest.mark.parametrize(
    ("name", "labels", "train", "dev"),
    [("RTE", 2, 2490, 277), ("MRPC", 2, 3668, 408), ("WNLI", 2, 635, 71)],
)
def test_glue_is_read_as_it_is(name: str, labels: int, train: int, dev: int) -> None:
    """The counts are those of GLUE's own description."""
    folder, task = real("glue", name), JudgePairs(BackboneConfig(), Bert)
    for part, count in (("train", train), ("dev", dev)):
        examples = list(task.read([next(folder.glob(f"{part}.tsv*"))]))
        assert len(examples) == count
        assert len({example.label for example in examples}) == labels


def test_sts_b_is_read_as_it_is() -> None:
    folder, task = real("glue", "STS-B"), RatePairs(SimilarityConfig(), Bert)
    examples = list(task.read([folder / "dev.tsv"]))
    numbers = [float(example.label) for example in examples]
    assert len(examples) == 1500
    assert (min(numbers), max(numbers)) == (0, 5)
