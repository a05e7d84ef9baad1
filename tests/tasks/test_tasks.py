"""What every task shares: runs that stop and go on to the same weights, settings, recipes, refusals in one sentence."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv import cli, folder, tasks
from qkv.config import read_toml
from qkv.errors import InputError
from qkv.evaluation import class_scores
from qkv.files import remove
from qkv.models import MODELS
from qkv.tasks import TASKS

WORDS = {"pos": ["good", "great", "fine"], "neg": ["bad", "awful", "poor"]}
SMALL: dict[str, Any] = {
    "task": "classify",
    "quiet": True,
    "data": {"vocab_size": 320, "batch_tokens": 100},
    "model": {"d_embedding": 8, "d_model": 8, "dropout": 0.2, "word_dropout": 0.1},
}
STEPS: dict[str, Any] = {"steps": 12, "validate_every": 4, "checkpoint_steps": 3, "threads": 1}


def write(path: Path, count: int, seed: int) -> Path:
    """Reviews of two sentences, one of which says what it is worth."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        label = rng.choice(["pos", "neg"])
        sentences = [f"this is film {number}.", f"It was {rng.choice(WORDS[label])}."]
        lines.append(f"{label}\t{' ||| '.join(rng.sample(sentences, 2))}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return write(tmp_path / "train.tsv", 60, 1)


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    return write(tmp_path / "valid.tsv", 20, 2)


def weights(out: Path) -> dict[str, torch.Tensor]:
    return folder.load_weights(sorted((out / "training" / "checkpoints").iterdir())[-1] / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_that_stopped_goes_on_as_if_it_never_had(train: Path, valid: Path, tmp_path: Path) -> None:
    whole = tasks.train(train, valid=[valid], out=tmp_path / "whole", **SMALL, training=STEPS)
    first = tasks.train(train, valid=[valid], out=tmp_path / "parts", **SMALL, training={**STEPS, "steps": 5})
    other = weights(tmp_path / "parts")
    more = tasks.train(out=tmp_path / "parts", quiet=True, training={"steps": 12})  # the rest is in the folder
    assert (whole.steps, first.steps, more.steps) == (12, 5, 12)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert not same(other, weights(tmp_path / "parts"))
    assert whole.best == more.best


def test_a_restart_replaces_the_old_run_and_a_mistake_in_it_does_not(train: Path, tmp_path: Path) -> None:
    out, few = tmp_path / "model", {**STEPS, "steps": 3}
    tasks.train(train, out=out, **SMALL, training=few)
    with pytest.raises(InputError, match="there is no file"):
        tasks.train(tmp_path / "no.tsv", out=out, restart=True, **SMALL, training=few)
    assert (out / "training" / "checkpoints" / "step-00000003").exists()
    tasks.train(train, out=out, restart=True, **SMALL, training={**few, "steps": 1})
    assert [path.name for path in (out / "training" / "checkpoints").iterdir()] == ["step-00000001"]
    remove(out / "training")
    with pytest.raises(InputError, match="already holds a model; give a new --out, or --restart to replace it"):
        tasks.train(train, out=out, **SMALL, training=few)


def test_results_stand_beside_the_baselines(
    train: Path, valid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    trained = tasks.train(train, valid=[valid], out=out, **{**SMALL, "quiet": False}, training=STEPS)
    results = json.loads((out / "results.json").read_text())
    assert results["task"] == "classify"
    assert results["steps"] == 12
    assert results["valid"] == trained.best
    assert 0 <= results["valid"]["accuracy"] <= 1
    told = capsys.readouterr().err
    assert f"macro-F1 {trained.best['macro_f1']:.2%}, Matthews correlation {trained.best['mcc']:.3f}" in told
    assert set(results["baselines"]) >= {"majority class", "bag of words"}
    for name, accuracy in results["baselines"].items():
        assert re.search(rf"{accuracy:.2%}  {name}", told)
    log = [json.loads(line) for line in (out / "training" / "log.jsonl").read_text().splitlines()]
    figures = [event for event in log if event["event"] == "valid"]
    assert [event["step"] for event in figures] == [4, 8, 12]
    assert max(event["accuracy"] for event in figures) == trained.best["accuracy"]


def test_a_model_is_scored_on_files_of_its_task(
    train: Path, valid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a loop over what it predicts counts it, and as its own validation said; by the command line too."""
    out = tmp_path / "model"
    rate = {**STEPS, "learning_rate": 0.02, "average": "none"}
    trained = tasks.train(train, valid=[valid], out=out, **SMALL, training=rate)
    lines = [line.split("\t") for line in valid.read_text().splitlines()]
    found = [answer["label"] for answer in tasks.predict(out, [text for _, text in lines])]
    scores = class_scores(found, [label for label, _ in lines])
    result = tasks.score(out, valid)
    assert (result["task"], result["examples"]) == ("classify", 20)
    for name in ("accuracy", "macro_f1", "mcc"):
        assert result[name] == pytest.approx(getattr(scores, name)) == pytest.approx(trained.best[name])
    assert result["loss"] == pytest.approx(trained.best["loss"], rel=1e-5)
    for more, told in (((), f"accuracy {scores.accuracy:.2%}, macro-F1 {scores.macro_f1:.2%}, Matthews"),
                       (("--json",), '"macro_f1"')):  # fmt: skip
        monkeypatch.setattr(sys, "argv", ["qkv", "score", "--model", str(out), str(valid), *more])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert not stopped.value.code
        assert told in capsys.readouterr().out
    with pytest.raises(InputError, match="no file was given; the task 'classify' reads files of label, tab, text"):
        tasks.score(out)
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(InputError, match=r"there is nothing to score: .*empty.tsv has no examples; give at least one"):
        tasks.score(out, tmp_path / "empty.tsv")


def test_without_validation_files_some_documents_are_held_out(train: Path, tmp_path: Path) -> None:
    """One in ten, the same in every run; none of them is trained on."""
    from qkv.tasks.run import TaskRun
    from qkv.tasks.settings import with_defaults

    from qkv.training.display import Display

    kind = TASKS["classify"]
    asked = with_defaults(kind, {"train": [str(train)]})

    def read() -> tuple[set[str], set[str]]:
        run = TaskRun(kind, tmp_path / "model", asked, Display(quiet=True), False, "settings")
        found = run.read(run.complete(asked, "settings"))
        return {one.text for one in found.train}, {one.text for one in found.valid}

    kept, held_out = read()
    assert len(held_out) == 6
    assert not kept & held_out
    assert len(kept | held_out) == 60
    assert read() == (kept, held_out)


def test_training_documents_that_are_validated_on_are_dropped(
    train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = train.read_text().splitlines(keepends=True)
    valid = tmp_path / "some.tsv"
    valid.write_text("".join(lines[:7]))
    tasks.train(train, valid=[valid], out=tmp_path / "m", **{**SMALL, "quiet": False}, training={**STEPS, "steps": 1})
    told = capsys.readouterr().err
    assert "7 training examples are also to validate or to test: dropped" in told
    assert "classify: 53 examples to train on, 7 to validate" in told


def test_a_recipe_names_the_task_and_flags_change_it(train: Path, valid: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text(
        f'task = "classify"\ntrain = ["{train}"]\nvalid = ["{valid}"]\n[data]\nvocab_size = 320\n'
        "[model]\nd_embedding = 8\nd_model = 8\n[training]\nsteps = 2\nthreads = 1\n"
    )
    qkv.train(recipe=recipe, out=tmp_path / "model", quiet=True, model={"d_model": 6})
    config = folder.load(tmp_path / "model").model.config
    assert (config.d_embedding, config.d_model) == (8, 6)
    again = read_toml(tmp_path / "model" / "training" / "recipe.toml")
    assert again.pop("files").keys() == {str(train), str(valid)}
    assert tasks.complete(again, "again").model == config


def test_every_task_is_whole() -> None:
    assert list(TASKS)[:2] == ["translate", "classify"]
    for name, task in TASKS.items():
        assert task.name == name
        assert MODELS[task.architecture].task == name
        assert (task.__doc__ or "").split("\n")[0].strip()
        settings = tasks.complete({"task": name, "train": ["x"]}, name)
        assert settings.task == name
        assert isinstance(settings.objective, task.objective_class)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"task": "clasify"}, "unknown task 'clasify'; did you mean 'classify'?"),
        (
            {"task": "classify", "model": {"d_modle": 1}},
            "settings: model: unknown key 'd_modle'; did you mean 'd_model'?",
        ),
        (
            {"task": "classify", "data": {"max_words": 0}},
            "settings: data: max_words and max_sentences must be at least 1",
        ),
        ({"task": "classify", "data": 3}, "settings: data is 3; it must be a table of settings"),
        ({"task": "classify", "architecture": "transformer"}, "'transformer' is no model of the task 'classify'"),
        ({"task": "classify", "source": "en"}, "settings: unknown key 'source'"),
        ({"task": "classify", "training": {"epoch": 1}}, "unknown key 'training.epoch'; did you mean 'epochs'?"),
        (
            {"task": "classify", "model": {"n_classes": 5}},
            "model.n_classes is 5, but the data asks for 2; leave it out",
        ),
        (
            {"task": "classify", "training": {"best_by": "bleu"}},
            "settings: training.best_by is bleu, but the task 'classify' has loss and accuracy; give one of them",
        ),
        ({"architecture": "hierarchical"}, "settings: unknown architecture 'hierarchical'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(given: dict[str, Any], told: str, train: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        tasks.train(train, out=tmp_path / "model", quiet=True, **given)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_no_file_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file was given; the task 'classify' reads files of label, tab, text"):
        tasks.train(task="classify", out=tmp_path / "model", quiet=True)


def test_a_folder_keeps_to_its_task(train: Path, valid: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    tasks.train(train, valid=[valid], out=out, **SMALL, training={**STEPS, "steps": 1})
    with pytest.raises(InputError, match=r"this run began with task = 'classify', now it is 'translate'; give a new"):
        tasks.train(train, task="translate", out=out, quiet=True)
    with pytest.raises(InputError, match="holds a model of the task 'classify', no translator; use qkv predict"):
        qkv.load(out)
    with pytest.raises(InputError, match=r"this run began with data.vocab_size = 320, now it is 400; give a new --out"):
        tasks.train(train, valid=[valid], out=out, task="classify", quiet=True, data={"vocab_size": 400})
    train.write_text("pos\tother\n")
    with pytest.raises(InputError, match="has changed since this run began"):
        tasks.train(train, valid=[valid], out=out, **SMALL)
