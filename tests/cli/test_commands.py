"""The other commands: score, list, info, average, check; and the help of all."""

import dataclasses
import inspect
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import qkv as package
from kit import write_sides
from qkv import cli
from qkv.attention import ATTENTIONS, SCORES, STRUCTURES
from qkv.cli.look import EXAMPLE
from qkv.cli.quantize import shortlist_
from qkv.cli.show import LISTS
from qkv.engines.shortlist import make_shortlist
from qkv.evaluation import score
from qkv.look.steps import WORDS
from qkv.models import MODELS
from qkv.objectives import OBJECTIVES
from qkv.papers import PAPERS
from qkv.positions import POSITIONS
from qkv.tasks import TASKS
from qkv.text.tokenizer import TOKENIZERS
from qkv.training import SCHEDULES, TrainingConfig
from qkv.training.averaging import AVERAGES

Run = Callable[..., Any]
Pairs = list[tuple[str, str]]
RECIPES = [path.stem for path in (Path(__file__).parents[2] / "recipes").glob("*.toml")]


@pytest.fixture
def test_files(tmp_path: Path, pairs: Pairs) -> list[str]:
    """Some pairs as test.num and test.en; capitals make a difference that --lowercase takes away."""
    some = [(source, target.capitalize()) for source, target in pairs[:40]]
    write_sides(some, tmp_path / "test.num", tmp_path / "test.en")
    return ["test.num", "test.en"]


@pytest.mark.parametrize("flags", [{}, {"lowercase": True}, {"as_paper": True}, {"confidence": True}])
def test_score_equals_the_scores_of_the_same_lines(
    flags: dict[str, bool], qkv: Run, model: Path, tmp_path: Path, test_files: list[str]
) -> None:
    given = [f"--{name.replace('_', '-')}" for name in flags]
    sources, references = ((tmp_path / name).read_text(encoding="utf-8").splitlines() for name in test_files)
    texts = [line.text for line in package.load(model).translate(sources, beam=2)]
    expected = score(texts, references, target_language="en", **flags)
    found = json.loads(qkv("score", *test_files, "--model", model, "--beam", "2", "--json", *given).out)
    assert found["bleu"] == pytest.approx(expected.bleu)
    assert found["chrf"] == pytest.approx(expected.chrf)
    assert (found["bleu_signature"], found["sentences"]) == (expected.bleu_signature, 40)
    lines = qkv("score", *test_files, "--model", model, "--beam", "2", *given).lines
    assert lines[0].startswith(f"BLEU {expected.bleu:.2f}")
    assert lines[0].endswith(expected.bleu_signature)
    assert lines[1] == f"chrF {expected.chrf:.2f}   {expected.chrf_signature}"
    assert ("95 % between" in lines[0]) == ("confidence" in flags)


def test_what_there_is_to_list(qkv: Run) -> None:
    """With no name: every list, and what is in it."""
    result = qkv("list")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[2] for line in lines] == list(LISTS)
    assert all(len(line) <= 80 for line in lines)
    assert [line.split()[3:5] for line in lines if " tasks " in line] == [[str(len(TASKS)), f"{next(iter(TASKS))},"]]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("positions", POSITIONS),
        ("attention", [*ATTENTIONS, *SCORES, *STRUCTURES]),
        ("models", MODELS),
        ("objectives", OBJECTIVES),
        ("tasks", TASKS),
        ("tokenizers", TOKENIZERS),
        ("schedules", SCHEDULES),
        ("averages", AVERAGES),
        ("recipes", RECIPES),
        ("papers", PAPERS),
    ],
)
def test_list_prints_every_name_of_a_table(kind: str, names: list[str], qkv: Run) -> None:
    result = qkv("list", kind)
    assert result.code == 0
    entries = [line.split(maxsplit=1) for line in result.lines if line.strip() and not line.startswith(" ")]
    assert {name for name, _ in entries} == set(names), "each with a word about it"


def test_info(qkv: Run, model: Path) -> None:
    facts = json.loads(qkv("info", model, "--json").out)
    parameters = sum(tensor.numel() for tensor in load_file(model / "model.safetensors").values())
    assert facts["parameters"] == parameters
    assert (facts["source"], facts["target"], facts["model"]) == ("num", "en", "transformer")
    assert (facts["d_model"], facts["vocab_size"], facts["checkpoints"]) == (32, 310, 3)
    table = dict(line.split(maxsplit=1) for line in qkv("info", model).lines)
    assert table.keys() == {name for name, value in facts.items() if value not in ("", [])}
    assert table["parameters"].strip() == f"{parameters:,}"
    assert table["attention_bias"].strip() == "False"


@pytest.mark.parametrize("form", ["the last of a run", "folders"])
def test_average_is_the_mean(form: str, qkv: Run, model: Path, tmp_path: Path) -> None:
    checkpoints = sorted((model / "training" / "checkpoints").iterdir())[-2:]
    given = [model, "--last", "2"] if form == "the last of a run" else checkpoints
    result = qkv("average", *given, "--out", "mean")
    assert result.code == 0
    assert result.out.startswith("mean: the mean of 2 sets of weights (step-00000240, step-00000300)")
    first, second, mean = (load_file(path / "model.safetensors") for path in (*checkpoints, tmp_path / "mean"))
    assert mean.keys() == first.keys()
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (first[name].double() + second[name].double()).div(2).float())
    assert any(not torch.equal(mean[name], second[name]) for name in mean)
    assert qkv("translate", "7", "--model", "mean").out.strip()


def test_an_average_takes_no_models_place(qkv: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    result = qkv("average", model, "--out", "mine")
    sentence = "qkv: mine holds a model, which is not overwritten; give --out the name of a new folder\n"
    assert (result.code, result.err) == (1, sentence)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["config.json"]


def test_check_tells_what_training_would_drop(qkv: Run, tmp_path: Path) -> None:
    good = [f"sentence {i}\tSatz {i}" for i in range(20)]
    bad = ["\tno source", "the same\tthe same", "short\t" + "very long " * 20, good[3]]
    (tmp_path / "pairs.tsv").write_text("\n".join(good + bad), encoding="utf-8")
    lines = qkv("check", "pairs.tsv").lines
    assert lines[0] == "24 pairs read, 20 good"
    assert sorted(lines[1:]) == [
        "1 pair had a target that is a copy of the source: dropped (first: pairs.tsv line 22)",
        "1 pair had an empty side: dropped (first: pairs.tsv line 21)",
        "1 pair had one side more than 9 times as long as the other: dropped (first: pairs.tsv line 23)",
        "1 pair repeated another pair exactly: dropped",
    ]


@pytest.mark.parametrize("form", [["--model", "recurrent"], ["--model=recurrent"]])
@pytest.mark.parametrize("command", [["train", "missing.tsv"], ["demo", "--say", "2001"]])
def test_the_old_name_of_an_architecture_still_serves_and_says_the_new_one(
    command: list[str], form: list[str], qkv: Run
) -> None:
    called, given, _ = cli.application().parse_args(cli.spell_out([*command, *form]))
    assert (called.__name__, given.arguments["architecture"]) == (command[0], "recurrent")
    said, sentence = qkv(*command, *form).err.splitlines()
    assert said == "--model recurrent is now --architecture recurrent; the next version has no other"
    assert sentence == qkv(*command, "--architecture", "recurrent").err.strip(), "and nothing else is different"


def test_help_and_version(qkv: Run) -> None:
    for flags in (["--help"], ["-h"], []):
        result = qkv(*flags)
        assert result.code == 0
        assert all(f" {command} " in result.out for command in cli.COMMANDS)
        assert "\n  qkv train pairs.tmx --from en --to de" in result.out
    assert qkv("--version").out == f"{package.__version__}\n"


def test_the_help_of_training_is_short_and_has_all_on_request(qkv: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty flags that matter; every setting of every section, once, in the long one."""
    monkeypatch.setenv("COLUMNS", "200")
    shown = lambda text: re.findall(r"^│ (--[\w.-]+)", text, re.MULTILINE)  # noqa: E731
    short, long = qkv("train", "--help").out, qkv("train", "--help-all").out
    assert len(shown(short)) == 20
    assert {"--model.d-model", "--data.vocab-size", "--training.learning-rate", "--minutes"} <= set(shown(short))
    assert "--help-all" in short
    every = {f"--training.{field.name.replace('_', '-')}" for field in dataclasses.fields(TrainingConfig)}
    assert every <= set(shown(long))
    assert len(shown(long)) == len(set(shown(long))) > 150
    assert re.findall(r"^╭─ (\w+ \(--\w+\.\*\)) ", long, re.MULTILINE) == [
        f"{name.capitalize()} (--{name}.*)" for name in ("data", "model", "objective", "training")
    ]
    assert qkv("train", "--help").out == short, "it is short again"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_help_of_a_command_has_examples_that_can_be_typed(command: str, qkv: Run) -> None:
    result = qkv(command, "--help")
    assert result.code == 0
    about = result.out.partition("For example:\n")[2].partition("\n\n")[0]
    examples = [line.rpartition("| ")[2].partition(" >")[0] for line in about.splitlines()]  # without the shell's pipes
    assert examples
    for example in examples:
        name, *arguments = shlex.split(example)
        assert (name, arguments[0]) == ("qkv", command)
        called, _, _ = cli.application().parse_args(cli.spell_out(arguments), exit_on_error=False, print_error=False)
        assert called.__name__.rstrip("_") == command


def test_python_dash_m(shell: Run) -> None:
    assert shell("--version").out == f"{package.__version__}\n"


def test_defaults_that_are_written_twice_are_equal() -> None:
    """A command's signature imports no torch, so it repeats them."""
    theirs = inspect.signature(make_shortlist).parameters
    for name in ("frequent", "each"):
        assert inspect.signature(shortlist_).parameters[name].default == theirs[name].default
    assert " ".join(WORDS) == EXAMPLE
