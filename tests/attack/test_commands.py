"""Every command of the table, each new one by itself, with every bad file, bad folder and odd number: `make attack`."""

import inspect
import json
import os
import random
import shutil
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from attack.harness import attack
from attack.test_inputs import FOLDERS, INPUTS
from kit import save_untrained, tokenizer
from qkv.cli import COMMANDS
from qkv.models import TransformerConfig
from qkv.tasks.translation import PairsConfig
from qkv.training.settings import TrainingConfig

pytestmark = pytest.mark.attack
WITHOUT_END = {"serve", "demo"}  # with what is right for them; what is wrong for them ends them as it does others
NUMBERS = ["0", "-1", "1" + "0" * 18, "1" + "0" * 5000, "nan", "-inf", "1e308", "0x10", ""]
TEXTS = ["/", "..", "-", "--", "/dev/null", "/dev/full", "%n%s", "~", "*", "\u202e", "", " ", "\n", "a" * 300]
SEED = int(os.environ.get("QKV_ATTACK_SEED", "1"))


def function(command: str) -> inspect.Signature:
    module, _, name = COMMANDS[command].partition(":")
    return inspect.signature(getattr(import_module(f"qkv.cli.{module}"), name))


def line(command: str, file: str = "words.txt", model: str = "mt", **flags: str) -> list[str]:
    """A command line with a file and a model wherever it takes one."""
    given, parameters = [command], function(command).parameters
    if any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters.values()):
        given.append(file)
    if "model" in parameters:
        given += ["--model", model]
    for name in {"out", "output"} & {*parameters}:
        given += [f"--{name}", "written"]
    for name, value in flags.items():
        given.append(f"--{name.rstrip('_').replace('_', '-')}={value}")
    return given


def numbers(command: str) -> list[str]:
    """The flags of a command that are numbers."""
    return [name for name, parameter in function(command).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and isinstance(parameter.default, int | float)
            and not isinstance(parameter.default, bool)]  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good model, good files and all that is bad."""
    place = tmp_path_factory.mktemp("ground")
    save_untrained(place / "mt", "transformer", tokenizer(), {"source": "en", "target": "de"})
    (place / "words.txt").write_text("the cat sat\non the mat\n")
    (place / "pairs.tsv").write_text("".join(f"the cat {i}\tdie Katze {i}\n" for i in range(40)))
    for name, make in INPUTS.items():
        make(place / name)
    for number, make in enumerate(FOLDERS.values()):
        shutil.copytree(place / "mt", place / f"bad{number}")
        make(place / f"bad{number}")
    return place


def verdicts(ground: Path, lines: list[list[str]]) -> None:
    """Run each; all that is wrong is told at once, and the counts are kept for the table."""
    found = [attack(ground, *one, seconds=60) for one in lines]
    shutil.rmtree(ground / "written", ignore_errors=True)
    if told := os.environ.get("QKV_ATTACK_TABLE"):
        with Path(told).open("a") as file:
            rows: list[dict[str, Any]] = [
                {"given": " ".join(one.given), "fault": one.fault, "seconds": round(one.seconds, 1), "bytes": one.peak}
                for one in found
            ]
            file.writelines(json.dumps(row) + "\n" for row in rows)
    assert not (faults := [str(one) for one in found if one.fault]), "\n".join(faults)


@pytest.mark.parametrize("command", COMMANDS)
def test_files_and_folders(command: str, ground: Path) -> None:
    files = [line(command, file=name) for name in [*INPUTS, "mt", "nowhere.txt"] if command not in WITHOUT_END]
    numbers = range(len(FOLDERS) if "model" in function(command).parameters else 0)
    verdicts(ground, [*files, *(line(command, model=f"bad{number}") for number in numbers)])


ENDING = [name for name in COMMANDS if name not in WITHOUT_END]


@pytest.mark.parametrize("command", ENDING)
def test_numbers(command: str, ground: Path) -> None:
    verdicts(ground, [line(command, **{name: value}) for name in numbers(command) for value in NUMBERS])


@pytest.mark.parametrize("command", ENDING)
def test_texts(command: str, ground: Path) -> None:
    rng = random.Random(f"{SEED} {command}")

    def noise() -> str:
        letters = (
            rng.choice([rng.randrange(1, 128), rng.randrange(0x100, 0xD800)]) for _ in range(rng.randrange(1, 40))
        )
        return "".join(map(chr, letters))

    verdicts(ground, [line(command, file=text) for text in [*TEXTS, *(noise() for _ in range(12))]])


FIRST = [
    "train", "pairs.tsv", "--from", "en", "--to", "de", "--out", "written", "--restart", "--data.vocab-size", "300",
    "--model.preset", "tiny", "--training.steps", "1",
]  # fmt: skip
SECTIONS: dict[str, Any] = {"model": TransformerConfig, "data": PairsConfig, "training": TrainingConfig}


@pytest.mark.parametrize("section", SECTIONS)
def test_settings(section: str, ground: Path) -> None:
    """Each number of a section of `qkv train`, beyond any sense."""
    names = [field.name for field in fields(SECTIONS[section]) if field.type in (int, float)]
    flags = [f"--{section}.{name.replace('_', '-')}" for name in names]
    verdicts(ground, [[*FIRST, f"{flag}={value}"] for flag in flags for value in NUMBERS])
