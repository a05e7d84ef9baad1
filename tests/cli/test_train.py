"""`qkv train`: from files of any kind to a model folder, once and again."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import Pairs, same_weights, write_sides, write_tsv

Run = Callable[..., Any]


def write_two(place: Path, pairs: Pairs, name: str) -> None:
    write_sides(pairs, place / f"{name}.num", place / f"{name}.en")


def write_tmx(path: Path, pairs: Pairs) -> None:
    unit = '<tu><tuv xml:lang="num"><seg>{}</seg></tuv><tuv xml:lang="en-GB"><seg>{}</seg></tuv></tu>\n'
    body = "".join(unit.format(*pair) for pair in pairs)
    text = f'<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="num"/><body>\n{body}</body></tmx>\n'
    path.write_bytes(gzip.compress(text.encode()))


def test_the_run_folder_holds_model_settings_log_and_picture(trained: Any) -> None:
    assert "done: 300 steps are done" in trained.result.err
    assert trained.result.out == "", "standard output stays free"
    names = {path.name for path in trained.folder.iterdir()}
    assert {"config.json", "tokenizer.json", "model.safetensors", "training"} <= names
    place = trained.folder / "training"
    assert "d_model = 32" in (place / "recipe.toml").read_text(encoding="utf-8")
    assert (place / "curves.png").read_bytes().startswith(b"\x89PNG")
    events = [json.loads(line) for line in (place / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    validations = [event for event in events if event["event"] == "valid"]
    assert [event["step"] for event in validations] == [60, 120, 180, 240, 300]
    assert validations[-1]["loss"] < validations[0]["loss"]


def test_the_same_command_again_says_that_it_is_done(trained: Any, qkv: Run, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "model")
    command = [str(tmp_path / "model") if part == str(trained.folder) else part for part in trained.command]
    result = qkv(*command)
    assert result.code == 0
    assert "going on from step 300" in result.err
    assert "done: 300 steps are done, after 300 steps" in result.err
    assert same_weights(trained.folder, tmp_path / "model")


@pytest.mark.parametrize(
    ("files", "languages"),
    [
        ("pairs.tsv --from num --to en", ("num", "en")),
        ("pairs.tsv more.tsv", ("", "")),
        ("train.num train.en", ("num", "en")),
        ("pairs.tmx.gz --from num --to en", ("num", "en")),
        ("train.num train.en --valid val.num val.en", ("num", "en")),
        ("pairs.tsv --valid val.tsv --test test.tsv --from num --to en", ("num", "en")),
    ],
)
def test_files_of_every_kind(
    files: str, languages: tuple[str, str], qkv: Run, tmp_path: Path, pairs: Pairs, small: list[str]
) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs[:200])
    write_tsv(tmp_path / "more.tsv", pairs[200:300])
    write_two(tmp_path, pairs[:200], "train")
    write_tmx(tmp_path / "pairs.tmx.gz", pairs[:200])
    write_two(tmp_path, pairs[300:330], "val")
    write_tsv(tmp_path / "val.tsv", pairs[300:330])
    write_tsv(tmp_path / "test.tsv", pairs[150:170])
    result = qkv("train", *files.split(), *small[4:], "--steps", "2")  # without the languages of `small`
    assert result.code == 0, result.err
    read = 300 if "more" in files else 200
    kept = 180 if "test" in files else read
    held_out = 30 if "valid" in files else kept // 10
    assert f"{read} pairs read, {kept} kept" in result.err
    training = kept if "valid" in files else kept - held_out
    assert f"{training} pairs to train on, {held_out} to validate" in result.err
    about = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    assert (about["source"], about["target"]) == languages


def test_flags_are_laid_over_a_recipe(qkv: Run, tmp_path: Path, pairs: Pairs) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    (tmp_path / "mine.toml").write_text(
        'train = ["pairs.tsv"]\nsource = "num"\ntarget = "en"\n[model]\nd_model = 16\nd_ff = 48\nn_heads = 2\n'
        "encoder_layers = 1\ndecoder_layers = 1\n[training]\nsteps = 900\nbleu_sentences = 0\n",
        encoding="utf-8",
    )
    result = qkv("train", "--recipe", "mine.toml", "--model.d-model", "24", "--steps", "1", "--out", "here/new")
    assert result.code == 0, result.err
    about = json.loads((tmp_path / "here" / "new" / "config.json").read_text(encoding="utf-8"))
    assert about["transformer"]["d_model"] == 24
    assert about["transformer"]["d_ff"] == 48
    assert "done: 1 step is done" in result.err


def test_a_runs_own_settings_are_a_recipe_for_the_same_model(
    qkv: Run, tmp_path: Path, pairs: Pairs, small: list[str]
) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    assert qkv("train", "pairs.tsv", *small, "--steps", "3", "--out", "one").code == 0
    assert qkv("train", "--recipe", "one/training/recipe.toml", "--out", "two").code == 0
    assert qkv("train", "pairs.tsv", *small, "--steps", "3", "--out", "three", "--seed", "2").code == 0
    assert same_weights(tmp_path / "one", tmp_path / "two")
    assert not same_weights(tmp_path / "one", tmp_path / "three")


def test_a_width_that_suits_the_chosen_heads_is_taken(qkv: Run, tmp_path: Path, pairs: Pairs) -> None:
    """20 is divisible by the 4 heads that are chosen for a small corpus, though not by the 8 of the base model."""
    write_tsv(tmp_path / "pairs.tsv", pairs)
    result = qkv("train", "pairs.tsv", "--model.d-model", "20", "--steps", "1", "--training.bleu-sentences", "0")
    assert result.code == 0, result.err
    assert "d_model 20, " in result.err


@pytest.mark.parametrize("minutes", ["0.01", "inf"])
def test_minutes_limit_a_run(minutes: str, qkv: Run, tmp_path: Path, pairs: Pairs, small: list[str]) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    result = qkv("train", "pairs.tsv", *small, "--minutes", minutes, "--epochs", "0" if minutes == "0.01" else "0.1")
    assert result.code == 0, result.err
    assert f"done: {'0.01 minutes are over' if minutes == '0.01' else '0.1 epochs are done'}" in result.err


def test_a_run_goes_on_keeps_its_settings_and_can_begin_anew(
    qkv: Run, tmp_path: Path, pairs: Pairs, small: list[str]
) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    assert qkv("train", "pairs.tsv", *small, "--steps", "2").code == 0
    further = qkv("train", "pairs.tsv", *small, "--steps", "3")
    assert "going on from step 2" in further.err
    assert "done: 3 steps are done" in further.err

    other = qkv("train", "pairs.tsv", *small, "--steps", "3", "--objective.label-smoothing", "0.2")
    assert other.code == 1
    assert other.err.startswith("qkv: this run began with objective.label_smoothing = 0.1, now it is 0.2; give a new")

    write_tsv(tmp_path / "pairs.tsv", pairs[:100])
    changed = qkv("train", "pairs.tsv", *small, "--steps", "3")
    assert changed.code == 1
    assert changed.err.startswith("qkv: pairs.tsv has changed since this run began; give a new --out, or --restart")

    anew = qkv("train", "pairs.tsv", *small, "--steps", "2", "--restart")
    assert anew.code == 0
    assert "100 pairs read" in anew.err
    assert "going on" not in anew.err


def test_the_doctors_rules_are_flags(qkv: Run, tmp_path: Path, pairs: Pairs, small: list[str]) -> None:
    write_tsv(tmp_path / "pairs.tsv", [*pairs[:40], *[(f"copy {n}", f"copy {n}") for n in range(60)]])
    command = ["train", "pairs.tsv", *small, "--steps", "1"]
    refused = qkv(*command)
    assert refused.code == 1
    assert "set data.doctor.max_dropped = 1 to go on with the 40 that are left" in refused.err
    assert qkv(*command, "--data.doctor.max-dropped", "1").code == 0
