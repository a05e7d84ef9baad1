"""Multiple choice: each choice with its context, probabilities over all, the baselines, and every way to ask."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from corpora import CORPORA
from kit import tokenizer
from qkv.data import Place, generator
from qkv.models import Bert
from qkv.objectives import Choices
from qkv.opening import score_files
from qkv.tasks.choose import ChooseAnswers
from qkv.tasks.on_backbone import BackboneConfig
from qkv.text import read_choices
from qkv.text.examples import ChoiceQuestion
from qkv.text.tokenizer import BOS, EOS

WORDS = tokenizer("a dog is here and a cat runs", size=300)


def test_each_choice_is_read_with_the_context_by_itself() -> None:
    task = ChooseAnswers(BackboneConfig(), Bert)
    example = ChoiceQuestion("a dog", ["runs", "is here"], 1, "")
    [[ids, lengths, right]] = task.encode([example], WORDS, {"max_length": 99})
    texts = [[BOS, *WORDS.encode("a dog"), EOS, *WORDS.encode(choice), EOS] for choice in example.choices]
    assert ids == [*texts[0], *texts[1]]
    assert (lengths, right) == ([*map(len, texts)], [1])


def test_probabilities_are_a_softmax_over_single_readings(tmp_path: Path) -> None:
    """Of rows with two choices and with three: as a loop that reads each text alone finds them."""
    tiny = CORPORA["choose"]
    qkv.train(tiny.write(tmp_path), task="choose", out=tmp_path / "m", **tiny.settings(steps=5))
    opened = qkv.load(tmp_path / "m", engine="float32")
    asked: list[Any] = [
        ("a cat is here", "the cat runs", "a very long story of a dog"),
        ("a", "b", "c", "the dog runs"),
    ]
    for question, answer in zip(asked, opened.predict(asked), strict=True):
        context, *choices = question
        said = []
        for choice in choices:
            framed, _ = opened.task.model.frame.join(
                opened.tokenizer, [opened.tokenizer.encode(context), opened.tokenizer.encode(choice)], 999
            )
            with torch.inference_mode():
                said.append(opened.model(torch.tensor([framed])).answer("choices")[0])
        expected = torch.stack(said).softmax(0).tolist()
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-5)
        assert answer["answer"] == choices[answer["number"]]
        assert answer["number"] == expected.index(max(expected))


def test_accuracy_is_that_of_a_loop_over_predict(tmp_path: Path) -> None:
    tiny = CORPORA["choose"]
    file = tiny.write(tmp_path, 30)
    qkv.train(file, task="choose", out=tmp_path / "m", **tiny.settings(steps=5))
    examples, opened = list(read_choices([file])), qkv.load(tmp_path / "m")
    right = [opened.predict((one.context, *one.choices))["number"] == one.answer for one in examples]
    assert score_files(tmp_path / "m", file)["accuracy"] == pytest.approx(sum(right) / len(right))
    baselines = json.loads((tmp_path / "m" / "results.json").read_text())["baselines"]
    assert baselines["most words in common"] == 1  # by how the corpus is made
    assert 1 / 3 <= baselines["chance"] <= 1 / 2


def test_a_choice_is_asked_in_many_ways(command: Callable[..., Any], tmp_path: Path) -> None:
    tiny = CORPORA["choose"]
    qkv.train(tiny.write(tmp_path), task="choose", out=tmp_path / "model", **tiny.settings(steps=2))
    opened, texts = qkv.load(tmp_path / "model"), ("a cat is here", "the cat runs", "the dog runs")
    answer, named = opened.predict(texts), {"context": texts[0], "choices": [*texts[1:]]}
    for asked in ("\t".join(texts), named, json.dumps(named)):
        assert opened.predict(asked) == answer
    said = command("predict", *texts)
    assert said.lines[0].split("\t")[:2] == [answer["answer"], str(answer["number"])], said.err
    assert json.loads(command("predict", json.dumps(named), "--json").out) == answer


def test_questions_of_many_choices_stand_beside_those_of_few() -> None:
    """A batch of a row with two choices and one with four has the loss of both alone."""
    from kit import batch

    rows = [[[1, 5, 2, 1, 6, 2], [3, 3], [0]], [[1, 7, 1, 8, 1, 9, 1, 5], [2, 2, 2, 2], [3]]]
    losses = []
    for some in (rows, rows[:1], rows[1:]):
        asked = Choices().prepare(batch(*some), generator(0, Place()))
        said = (asked.inputs["ids"] * torch.arange(1, asked.inputs["ids"].size(1) + 1)).sum(1).float() / 7
        losses.append(float(Choices().loss(said, asked).total))
    assert losses[0] == pytest.approx(losses[1] + losses[2])
