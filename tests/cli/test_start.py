"""A command starts without what it does not need, and what needs no torch imports none."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import qkv
from qkv import cli, contents

HEAVY = {"matplotlib", "sacrebleu", "transformers", "scipy", "sklearn", "pandas", "starlette", "uvicorn", "onnx",
         "onnxruntime", "ctranslate2", "py3langid", "tensorboard"}  # fmt: skip
SOUND: list[list[str]] = [
    [],
    ["--help"],
    ["-h"],
    ["--version"],
    ["check", "pairs.tsv"],
    ["list"],
    *(["list", name] for name in contents.table("qkv.cli.show", "LISTS")),
    ["completion", "bash"],
    *([command, "--help"] for command in cli.COMMANDS),
]
MISTAKEN = [
    ["trian", "pairs.tsv"],
    ["check"],
    ["check", "pairs.tsv", "--form", "en"],
    ["completion", "csh"],
    ["list", "postions"],
    ["train", "pairs.tsv", "--steps", "many"],
    ["train", "pairs.tsv", "--steps"],
    ["train", "pairs.tsv", "--model.d-modle", "64"],
    ["train", "pairs.tsv", "--model.norm", "per"],
    ["train", "pairs.tsv", "--model.preset", "bas"],
    ["train", "pairs.tsv", "--task", "clasify"],
    ["train", "pairs.tsv", "--architecture", "recurent"],
    ["train", "pairs.tsv", "--model", "mine"],
    ["train", "pairs.tsv", "--data"],
    *([command, "--no-such-flag"] for command in cli.COMMANDS),
]
LIGHT = SOUND + MISTAKEN
# Runs each of the command lines that it is given, and says of each how it ended and what is imported by then.
PROGRAM = """
import contextlib, io, json, sys
from qkv import cli
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["qkv", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main()
    except SystemExit as ended:
        print(json.dumps([ended.code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
IMPORT = """
import gc, os, sys, threading, warnings
def state():
    return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), list(warnings.filters), dict(os.environ), \
        threading.active_count(), sys.getswitchinterval()
before = state()
import qkv
assert state() == before
assert not {"torch", "numpy", "pydantic"} & set(sys.modules), "imported too early"
assert set(qkv.__all__) <= set(dir(qkv))
assert "torch" not in sys.modules
qkv.InputError
assert "torch" not in sys.modules
qkv.Translator
assert "torch" not in sys.modules
qkv.train
assert "torch" in sys.modules
"""


def run(program: str, *arguments: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, cwd=cwd)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, set[str]]]:
    """For each command line of LIGHT, one after another in one process: its exit code, and what is imported by then."""
    place = tmp_path_factory.mktemp("light")
    (place / "pairs.tsv").write_text("one\teins\ntwo\tzwei\n")
    lines = run(PROGRAM, json.dumps(LIGHT), cwd=place).splitlines()
    return [(code, set(packages)) for code, packages in map(json.loads, lines)]


@pytest.mark.parametrize("number", range(len(LIGHT)), ids=[" ".join(line) or "nothing" for line in LIGHT])
def test_what_needs_no_torch_imports_none(number: int, started: list[tuple[int, set[str]]]) -> None:
    code, packages = started[number]
    assert (code == 0) == (LIGHT[number] in SOUND)
    assert not packages & {"torch", "numpy", "tokenizers", *HEAVY}


def test_translate_starts_without_what_it_does_not_need(tmp_path: Path) -> None:
    code, packages = json.loads(run(PROGRAM, json.dumps([["translate", "7", "--model", "nowhere"]]), cwd=tmp_path))
    assert code == 1
    assert not set(packages) & {"torch", *HEAVY}


def test_importing_the_package_changes_nothing_and_imports_little(tmp_path: Path) -> None:
    run(IMPORT, cwd=tmp_path)


def test_every_public_name_is_there_for_people_and_for_readers_of_types() -> None:
    shown = inspect.getsource(qkv).partition("if TYPE_CHECKING:")[2].partition("__all__")[0]
    for name in qkv.__all__:
        assert getattr(qkv, name) is getattr(importlib.import_module(qkv.NAMES[name]), name)
        assert name in shown.replace(",", " ").split()
    assert set(qkv.__all__) == set(qkv.NAMES)
    with pytest.raises(AttributeError, match="no attribute 'translate'"):
        qkv.translate  # noqa: B018


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_is_where_the_table_says(name: str) -> None:
    function = cli.application()[name].default_command
    assert f"{function.__module__.removeprefix('qkv.cli.')}:{function.__name__}" == cli.COMMANDS[name]
    assert contents.part(function.__module__, function.__name__).doc == inspect.getdoc(function)
