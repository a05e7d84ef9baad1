"""The same command goes on; another one is refused by name, unless it only says when to stop."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import write_tsv
from qkv.config import merge, read_toml
from qkv.errors import InputError
from qkv.files import remove
from qkv.training.settings import complete, paths

Again = Callable[..., Any]


@pytest.fixture(scope="module")
def begun(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], small: dict[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """A run of six steps, and what was asked for."""
    place = tmp_path_factory.mktemp("begun")
    tsv = write_tsv(place / "pairs.tsv", pairs)
    asked = merge(small, {"training": {"steps": 6, "bleu_sentences": 0}})
    qkv.train(tsv, out=place / "model", quiet=True, **asked)
    return place, asked


@pytest.fixture
def again(begun: tuple[Path, dict[str, Any]], tmp_path: Path) -> Again:
    """The same command on a copy of the folder, with something changed."""
    place, asked = begun
    shutil.copytree(place / "model", tmp_path / "model")

    def command(*files: Path, restart: bool = False, **changed: Any) -> Any:
        files = files or (place / "pairs.tsv",)
        return qkv.train(*files, out=tmp_path / "model", quiet=True, restart=restart, **merge(asked, changed))

    return command


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"model": {"d_ff": 64}}, "this run began with model.d_ff = 32, now it is 64; give a new --out, or --restart"),
        ({"model": {"dropout": 0.1}}, "began with model.dropout = 0.2, now it is 0.1"),
        ({"data": {"seed": 2}}, "began with data.seed = 1, now it is 2"),
        ({"data": {"doctor": {"max_ratio": 2.0}}}, "began with data.doctor = Rules"),
        ({"training": {"learning_rate": 0.5}}, "began with training.learning_rate = 0.01, now it is 0.5"),
        ({"training": {"schedule": "noam"}}, "began with training.schedule = 'inverse_square_root(warmup=20)'"),
        ({"training": {"precision": "bfloat16"}}, "began with training.precision = 'float32'"),
        ({"objective": {"label_smoothing": 0.0}}, "began with objective.label_smoothing = 0.1, now it is 0.0"),
        ({"source": "fr"}, "began with data.source = 'en', now it is 'fr'"),
        ({"valid": ["other.tsv"]}, r"began with valid = [], now it is ['other.tsv']"),
        ({"test": ["other.tsv"]}, r"began with test = [], now it is ['other.tsv']"),
    ],
)
def test_another_setting_is_refused_by_name(again: Again, changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        again(**changed)
    assert sentence in str(caught.value)


def test_another_preset_is_refused(begun: tuple[Path, dict[str, Any]]) -> None:
    place, _ = begun
    with pytest.raises(InputError, match=r"this run began with model\.d_model = 16, now it is 128"):
        qkv.train(place / "pairs.tsv", out=place / "model", quiet=True, model={"preset": "tiny"})


def test_another_file_is_refused(again: Again, tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("a\tb\n" * 20)
    with pytest.raises(InputError, match=r"this run began with train = .*pairs\.tsv.*, now it is .*other\.tsv"):
        again(tmp_path / "other.tsv")


@pytest.mark.parametrize(
    "limits",
    [{"steps": 8}, {"steps": 8, "patience": 2, "keep": 1, "threads": 1, "checkpoint_steps": 1}, {"epochs": 1.3}],
)
def test_another_end_is_accepted(again: Again, limits: dict[str, Any]) -> None:
    trained = again(training={"steps": 0, **limits})
    assert trained.steps == 8  # six steps are an epoch of this corpus: 1.3 of them are 8
    assert trained.steps > 6


def test_a_later_run_need_not_say_anything_again(again: Again, tmp_path: Path) -> None:
    assert qkv.train(out=tmp_path / "model", quiet=True).steps == 6
    assert qkv.train(out=tmp_path / "model", quiet=True, training={"steps": 7}).steps == 7


def test_what_is_said_again_in_other_words_is_no_change(again: Again) -> None:
    """0.1 is what the objective has by itself."""
    assert again(objective={"label_smoothing": 0.1}).steps == 6
    assert again(objective="translation(label_smoothing=0.1)").steps == 6


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_a_file_that_has_changed_is_refused(
    pairs: list[tuple[str, str]], small: dict[str, Any], tmp_path: Path, change: str
) -> None:
    tsv, out = write_tsv(tmp_path / "mine.tsv", pairs), tmp_path / "model"
    asked = merge(small, {"training": {"steps": 1, "bleu_sentences": 0}})
    qkv.train(tsv, out=out, quiet=True, **asked)
    if change == "gone":
        tsv.unlink()
    else:
        tsv.write_text(tsv.read_text().replace("cat", "cow", 1))
    with pytest.raises(InputError, match=r"mine\.tsv has changed since this run began; give a new --out, or --restart"):
        qkv.train(tsv, out=out, quiet=True, **asked)


def test_restart_begins_anew_with_other_settings(again: Again, tmp_path: Path) -> None:
    trained = again(restart=True, training={"steps": 2, "learning_rate": 0.5})
    assert trained.steps == 2
    out = tmp_path / "model"
    assert [path.name for path in (out / "training" / "checkpoints").iterdir()] == ["step-00000002"]
    assert read_toml(out / "training" / "recipe.toml")["training"]["learning_rate"] == 0.5
    steps = [json.loads(line)["step"] for line in (out / "training" / "log.jsonl").read_text().splitlines()]
    assert max(steps) == 2
    assert not list(out.glob(".*"))


def test_restart_leaves_a_folder_alone_that_no_run_made(begun: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """`--out . --restart` in a project that has a folder `training` of its own."""
    place, asked = begun
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "thesis.txt").write_text("years of work")
    qkv.train(place / "pairs.tsv", out=tmp_path, quiet=True, restart=True, **merge(asked, {"training": {"steps": 1}}))
    assert (tmp_path / "training" / "thesis.txt").read_text() == "years of work"


def test_a_mistake_in_a_restart_costs_nothing_of_the_old_run(again: Again, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file 'pirs\.tsv'"):
        again(Path("pirs.tsv"), restart=True)
    assert (tmp_path / "model" / "training" / "checkpoints" / "step-00000006").exists()
    assert again(training={"steps": 7}).steps == 7


def test_a_model_whose_run_cannot_go_on_is_not_overwritten(again: Again, tmp_path: Path) -> None:
    out = tmp_path / "model"
    remove(out / "training")
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="model already holds a model; give a new --out, or --restart to replace it"):
        again(training={"steps": 2})
    assert (out / "model.safetensors").read_bytes() == before
    assert again(restart=True, training={"steps": 2}).steps == 2


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_run_inherits_no_checkpoints(again: Again, tmp_path: Path, restart: bool) -> None:
    """Nor are they removed: without a recipe, nobody knows whose they are."""
    (tmp_path / "model" / "training" / "recipe.toml").unlink()
    with pytest.raises(
        InputError, match=r"training has checkpoints but no recipe\.toml; remove it, or give a new --out"
    ):
        again(restart=restart)
    assert (tmp_path / "model" / "training" / "checkpoints" / "step-00000006").exists()


def test_a_runs_own_recipe_makes_the_same_model(begun: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    place, _ = begun
    recipe = place / "model" / "training" / "recipe.toml"
    qkv.train(recipe=recipe, out=tmp_path / "twin", quiet=True)
    stored, twin = read_toml(recipe), read_toml(tmp_path / "twin" / "training" / "recipe.toml")
    assert twin == stored
    assert complete(stored, "x").model.d_model == 16
    ours, theirs = (folder / "model.safetensors" for folder in (place / "model", tmp_path / "twin"))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": {"position": "sinusodial"}},
        {"model": {"attention": "scaled_dot(x=1)"}},
        {"data": {"tokenizer": "bpee"}},
        {"training": {"device": "cuda:99"}},
        {"model": {"vocab_size": 7}},
        {"training": {"schedule": "noam(d=1)"}},
    ],
)
def test_a_mistake_leaves_no_trace(begun: tuple[Path, dict[str, Any]], tmp_path: Path, wrong: dict[str, Any]) -> None:
    """After the mistake is mended, the same command with the same --out just works."""
    place, asked = begun
    with pytest.raises(InputError):
        qkv.train(place / "pairs.tsv", out=tmp_path / "new", quiet=True, **merge(asked, wrong))
    assert not (tmp_path / "new").exists()


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="no file was given; translate learns from files of sentence pairs, for example"
    ):
        qkv.train(out=tmp_path / "new", quiet=True)


def test_what_a_killed_run_left_half_written_is_removed_and_nothing_else(again: Again, tmp_path: Path) -> None:
    out = tmp_path / "model"
    half = [out / ".model.safetensors.123.part", out / ".config.json.7.part", out / "training" / ".recipe.toml.9.part"]
    own = out / ".download.part"
    for path in [*half, own]:
        path.write_text("half")
    again()
    assert not [path for path in half if path.exists()]
    assert own.read_text() == "half"


def test_a_run_that_kept_no_weights_says_so(begun: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    place, asked = begun
    wild = {"training": {"learning_rate": 1e30, "steps": 3}}
    with pytest.raises(InputError, match=r"no validation gave a number, so there is no model .* lower --training"):
        qkv.train(place / "pairs.tsv", out=tmp_path / "new", quiet=True, **merge(asked, wild))


def test_a_list_in_a_list_of_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('train = [["a.en", "a.de"]]\n')
    with pytest.raises(InputError, match=r"my\.toml: train\.0: Input should be a valid string"):
        qkv.train(recipe=tmp_path / "my.toml", out=tmp_path / "new", quiet=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_refused_since_files_are_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(InputError, match=r"pipe\.tsv is a pipe or a device, .* more than once; write it to a file"):
        paths([str(tmp_path / "pipe.tsv")])
