"""For every task: a run that stopped goes on as if it never had; files are read once; memory does what files do."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from corpora import CORPORA
from kit import same, sizes
from qkv.folder import RunFolder
from qkv.tasks import TASKS
from qkv.training import checkpoint

EVERY = pytest.mark.parametrize("task", TASKS)


def state(out: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the newest checkpoint: weights, optimiser, average, random generator."""
    found = checkpoint.newest(RunFolder(out).checkpoints, pytest.fail)
    assert found is not None
    return {**found.weights, **found.tensors}


@EVERY
def test_a_run_that_stopped_goes_on_as_if_it_never_had(task: str, tmp_path: Path) -> None:
    stopped_and_whole(task, tmp_path)


@pytest.mark.parametrize("architecture", ["elmo", "unilm"])  # others have tests of their own, with what they carry
def test_so_does_that_of_another_model(architecture: str, tmp_path: Path) -> None:
    model = sizes(architecture, **CORPORA["fill"].model)
    model.pop("vocab_size")
    stopped_and_whole("fill", tmp_path, {"architecture": architecture, "model": model})


def test_a_run_that_started_from_a_model_goes_on_as_if_it_never_had(tmp_path: Path) -> None:
    """Fine-tuning, its lower layers waking up one by one: a classifier on a language model."""
    lm = CORPORA["language_model"]
    settings = lm.settings()
    settings["model"] = {**lm.model, "layers": 2}
    qkv.train(lm.write(tmp_path), task="language_model", out=tmp_path / "lm", **settings)
    given = {"start": tmp_path / "lm", "model": {}, "architecture": "gpt2"}
    stopped_and_whole("classify", tmp_path, given, {"unfreeze": 0.2, "layer_decay": 0.5})


def stopped_and_whole(
    task: str, tmp_path: Path, given: dict[str, Any] | None = None, training: dict[str, Any] | None = None
) -> None:
    """To the bit: 9 steps at once, or 4 and then 5 more, with validations and an average on the way."""
    tiny = CORPORA[task]
    file = tiny.write(tmp_path)
    how = {"validate_every": 3, "average": "running(decay=0.9)", "accumulate": 2, **(training or {})}

    def run(name: str, steps: int) -> qkv.Trained:
        return qkv.train(file, task=task, out=tmp_path / name, **{**tiny.settings(steps=steps, **how), **(given or {})})

    whole, first = run("whole", 9), run("parts", 4)
    halfway = state(tmp_path / "parts")
    rest = qkv.train(out=tmp_path / "parts", quiet=True, training={"steps": 9})  # the rest is in the folder
    assert (whole.steps, first.steps, rest.steps) == (9, 4, 9)
    assert same(state(tmp_path / "whole"), state(tmp_path / "parts"))
    assert not same(state(tmp_path / "whole"), halfway)


@EVERY
def test_every_file_is_read_and_examined_once(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is made of it: sub-words, rows to train and to validate on, baselines, figures."""
    tiny, kind = CORPORA[task], TASKS[task]
    files = {name: tiny.write(tmp_path, count, seed) for name, count, seed in (("t", 60, 1), ("v", 10, 2), ("x", 5, 3))}
    seen: dict[str, Counter[str]] = {"read": Counter(), "examined": Counter()}
    read, examine = kind.read, kind.examine

    def reading(self: Any, paths: list[Path]) -> Iterator[Any]:
        for example in read(self, paths):
            seen["read"][example.place] += 1
            yield example

    def examining(self: Any, examples: Iterator[Any], *more: Any) -> Iterator[Any]:
        def counted() -> Iterator[Any]:
            for example in examples:
                seen["examined"][example.place] += 1
                yield example

        return examine(self, counted(), *more)

    monkeypatch.setattr(kind, "read", reading)
    monkeypatch.setattr(kind, "examine", examining)
    out = tmp_path / "model"
    qkv.train(files["t"], valid=[files["v"]], test=[files["x"]], task=task, out=out, **tiny.settings())
    for found in seen.values():
        assert set(found.values()) == {1}
        assert all(any(str(path) in place for place in found) for path in files.values())
    seen["read"].clear()
    qkv.train(out=out, quiet=True, training={"steps": 4})
    assert not seen["read"], "a run that goes on reads its rows alone"


def as_file(task: str, place: Path) -> Callable[[], Iterator[Any]]:
    """The examples of a task's file as plain tuples, without their places, as a program would have them."""
    kind = TASKS[task]
    reader = kind(kind.data_class(**CORPORA[task].data))
    fields = [*reader.fields]

    def examples() -> Iterator[Any]:
        for example in reader.read([CORPORA[task].write(place)]):
            values = tuple(getattr(example, name) for name in fields)
            yield values[0] if len(values) == 1 else values

    return examples


@EVERY
def test_examples_in_memory_train_the_model_of_their_file(task: str, tmp_path: Path) -> None:
    tiny, examples = CORPORA[task], as_file(task, tmp_path)
    kind = TASKS[task]
    fields = [*kind(kind.data_class()).fields]
    # An example of one field is given as it is, in whatever shape.
    named = [dict(zip(reversed(fields), reversed(one), strict=True)) if len(fields) > 1 else one for one in examples()]
    is_first = next(one for one in TASKS.values() if one.shape == kind.shape) is kind
    named_task = {} if is_first else {"task": task}
    qkv.train(tiny.write(tmp_path), task=task, out=tmp_path / "file", **tiny.settings())
    expected = state(tmp_path / "file")
    for shape, given in {"list": list(examples()), "generator": examples(), "dicts": named}.items():
        qkv.train(**{kind.shape: given}, **named_task, out=tmp_path / shape, **tiny.settings())
        assert same(state(tmp_path / shape), expected), shape


def plain(answer: Any) -> list[Any]:
    """The numbers and words of an answer, in one row."""
    if isinstance(answer, dict):
        return [one for key, value in answer.items() for one in (key, *plain(value))]
    if isinstance(answer, list | tuple):
        return [one for value in answer for one in plain(value)]
    return [pytest.approx(answer, abs=1e-5) if isinstance(answer, float) else answer]


@EVERY
def test_an_answer_does_not_depend_on_its_neighbours(task: str, tmp_path: Path) -> None:
    """In one batch, in batches of one, and in another order; after loading again, the same."""
    tiny = CORPORA[task]
    qkv.train(tiny.write(tmp_path), task=task, out=tmp_path / "model", **tiny.settings(steps=10))
    opened = qkv.load(tmp_path / "model")
    assert f"task {task}, " in repr(opened), "what is loaded says what it is"
    together = tiny.asks(opened, tiny.questions)
    assert len(together) == len(tiny.questions)
    for question, answer in zip(tiny.questions, together, strict=True):
        assert plain(tiny.asks(opened, [question])[0]) == plain(answer)
    backwards = tiny.asks(qkv.load(tmp_path / "model"), tiny.questions[::-1])
    assert plain(backwards[::-1]) == plain(together)
    assert tiny.asks(opened, []) == []
