"""Every command of the table, each new one by itself, with bad files, bad folders, odd numbers and noise."""

import inspect
import random
import shutil
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from attack.harness import SEED, attack, count, record
from attack.models import save_models
from attack.test_inputs import FOLDERS, INPUTS, holds
from kit import some_pairs, write_tsv
from qkv.cli import COMMANDS
from qkv.models import TransformerConfig
from qkv.tasks.translation import PairsConfig
from qkv.training.settings import TrainingConfig

pytestmark = pytest.mark.attack
WITHOUT_END = {"serve", "demo"}  # with what is right for them; they are asked to end after so many seconds
ASKED = 4.0
SECONDS = 150.0  # within which a command has ended, training of one step included, on a machine with much else to do
MODEL = {"generate": "lm", "fill": "bert", "embed": "bert", "predict": "critic", "summarise": "mt"}  # else "mt"
FILE = {"train": "pairs.tsv", "check": "pairs.tsv", "compare": "tiny.toml", "why": "scale", "picture": "masks"}
ALSO = {"compare": ["--vary=position=none"], "quantize": ["--output=written"]}
NUMBERS = ["0", "-1", "1" + "0" * 18, "1" + "0" * 5000, "nan", "-inf", "1e308", "0x10", ""]
TEXTS = ["/", "..", "-", "--", "/dev/null", "/dev/full", "%n%s", "~", "*", "\u202e", "", " ", "\n", "a" * 300]
LARGE = {"tags.html": holds("<b>x</b>" * 100_000), "brackets.md": holds("[the cat](" * 20_000)}  # of minutes
SMALL = {
    "data.vocab_size": 300, "data.batch_tokens": 400, "data.max_length": 20, "model.d_model": 16, "model.d_ff": 32,
    "model.n_heads": 2, "model.encoder_layers": 1, "model.decoder_layers": 1, "training.steps": 1,
    "training.bleu_sentences": 0, "training.threads": 1,
}  # fmt: skip
STEP = ["--from=en", "--to=ne", "--restart", *(f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items())]
SECTIONS: dict[str, Any] = {"model": TransformerConfig, "data": PairsConfig, "training": TrainingConfig}
RECIPE = 'train = ["pairs.tsv"]\nsource = "en"\ntarget = "ne"\n'


def function(command: str) -> inspect.Signature:
    module, _, name = COMMANDS[command].partition(":")
    return inspect.signature(getattr(import_module(f"qkv.cli.{module}"), name))


def line(command: str, file: str = "", model: str = "", **flags: str) -> list[str]:
    """A command line with a file and a model wherever it takes one: right ones, unless others are given."""
    given, parameters = [command], function(command).parameters
    if any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters.values()):
        given.append(file or FILE.get(command, "mt" if command in ("info", "quantize", "export") else "words.txt"))
    if "model" in parameters and command != "train":
        given += ["--model", model or MODEL.get(command, "mt")]
    for name in {"out", "output"} & {*parameters} - {*flags}:
        given += [f"--{name}", "written"]
    given += STEP if command == "train" else ALSO.get(command, [])
    return [*given, *(f"--{name.rstrip('_').replace('_', '-')}={value}" for name, value in flags.items())]


def noise(rng: random.Random) -> str:
    ends = [rng.choice([rng.randrange(1, 128), rng.randrange(0x100, 0xD800)]) for _ in range(rng.randrange(1, 40))]
    return "".join(map(chr, ends))


def lines(command: str, rng: random.Random) -> Iterator[list[str]]:
    """All that is wrong in one place, and some noise."""
    parameters = function(command).parameters
    yield from (line(command, file=name) for name in [*INPUTS, "mt", "nowhere.txt", *TEXTS] if name)
    if "model" in parameters and command != "train":
        yield from (line(command, model=name) for name in [*(f"bad{i}" for i in range(len(FOLDERS))), "words.txt", "/"])
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in ("model", "data", "training", "objective"):
            continue
        is_number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
        some = NUMBERS if is_number else [*TEXTS, *NUMBERS, *INPUTS, "mt", noise(rng)]
        yield from (line(command, **{name: value}) for value in some)
    if command == "train":
        for section, settings in SECTIONS.items():
            names = [field.name for field in fields(settings) if field.type in (int, float)]
            yield from (line(command, **{f"{section}.{name}": value}) for name in names for value in NUMBERS)
    yield from (line(command, file=noise(rng)) for _ in range(20))
    yield from ([command, f"--{noise(rng)}", noise(rng)] for _ in range(5))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good models, good files and all that is bad."""
    place = tmp_path_factory.mktemp("ground")
    save_models(place)
    (place / "words.txt").write_text("the cat sat\non the mat\n")
    (place / "tiny.toml").write_text(RECIPE + "".join(f"{name} = {value}\n" for name, value in SMALL.items()))
    write_tsv(place / "pairs.tsv", some_pairs(60))
    for name, make in (INPUTS | LARGE).items():
        make(place / name)
    for number, make in enumerate(FOLDERS.values()):
        shutil.copytree(place / "mt", place / f"bad{number}")
        make(place / f"bad{number}")
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input(command: str, ground: Path) -> None:
    """Drawn by a seed; all that is wrong is told at once."""
    rng = random.Random(f"{SEED} {command}")
    every = [*lines(command, rng)]
    share = -(-count("inputs") // len(COMMANDS))
    asked = ASKED if command in WITHOUT_END else None
    faults = []
    for given in rng.sample(every, min(share, len(every))):
        one = attack(ground, *given, seconds=SECONDS, asked=asked)
        seconds = round(one.seconds, 1)
        record("inputs", {"given": " ".join(given)[:200], "fault": one.fault, "seconds": seconds, "bytes": one.peak})
        faults += [str(one)] if one.fault else []
        shutil.rmtree(ground / "written", ignore_errors=True)
    assert not faults, "\n".join(faults)
