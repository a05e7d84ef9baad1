"""A command starts without what it does not need; and each command is found in the module that the table names."""

import subprocess
import sys

import pytest

from qkv import cli

HEAVY = {"matplotlib", "sacrebleu", "transformers", "scipy", "sklearn", "pandas", "starlette", "uvicorn", "onnx",
         "onnxruntime", "ctranslate2", "py3langid", "tensorboard"}  # fmt: skip
PROGRAM = """
import sys
from qkv import cli
cli.join(["{command}"])
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
print(*sorted(name for name in sys.modules if name.startswith("qkv.cli.")))
"""


def loaded_by(command: str) -> tuple[set[str], set[str]]:
    """The packages, and of ours the modules of commands, that a process has which is asked for this command."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(command=command)], capture_output=True, check=True)
    packages, commands = done.stdout.decode().splitlines()
    return set(packages.split()), set(commands.split())


def test_translate_starts_without_what_it_does_not_need() -> None:
    packages, commands = loaded_by("translate")
    assert {"torch", "tokenizers", "qkv"} <= packages
    assert not packages & HEAVY
    assert commands == {"qkv.cli.app", "qkv.cli.documents", "qkv.cli.translate"}


@pytest.mark.parametrize("arguments", [[], ["--help"], ["trainslate"]])
def test_all_commands_join_where_none_is_named(arguments: list[str]) -> None:
    cli.join(arguments)
    assert {name for name in cli.app if not name.startswith("-")} == set(cli.COMMANDS)


def test_each_command_is_where_the_table_says() -> None:
    cli.join([])
    for name, module in cli.COMMANDS.items():
        assert cli.app[name].default_command.__module__ == f"qkv.cli.{module}"
