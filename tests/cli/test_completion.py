"""The shell completes what it should: commands, flags, choices."""

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qkv import cli
from qkv.models import MODELS
from qkv.tasks import TASKS

Run = Callable[..., Any]


@pytest.fixture
def complete(qkv: Run, tmp_path: Path) -> Callable[[str], set[str]]:
    """What bash offers for a line whose last word is unfinished."""
    if not shutil.which("bash"):
        pytest.skip("there is no bash here")
    (tmp_path / "script").write_text(qkv("completion", "bash").out)
    (tmp_path / "corpus").mkdir()

    def offered(line: str) -> set[str]:
        words = line.split(" ")
        typed = f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}"
        program = f"source ./script; {typed}; _qkv; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "--norc", "-c", program], cwd=tmp_path, capture_output=True, text=True)
        assert done.stderr == ""
        return set(done.stdout.split())

    return offered


def test_bash_completes_commands_flags_and_choices(complete: Callable[[str], set[str]]) -> None:
    assert complete("qkv ") >= set(cli.COMMANDS)
    assert complete("qkv tr") == {"train", "translate"}
    assert complete("qkv train --arch") == {"--architecture"}
    assert complete("qkv train --architecture ") == set(MODELS)
    assert complete("qkv train --task ") == set(TASKS)
    assert complete("qkv train --model.d-mo") == {"--model.d-model"}
    assert complete("qkv train --model.norm p") == {"post", "pre"}
    assert complete("qkv list pos") == {"positions"}
    assert complete("qkv train --out cor") == {"corpus"}
    assert complete("qkv translate --model.d-mo") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_with_every_command(shell: str, qkv: Run) -> None:
    result = qkv("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert all(command in result.out for command in cli.COMMANDS)
    assert "smoothing" in result.out


def test_another_shell_is_refused(qkv: Run) -> None:
    result = qkv("completion", "csh")
    assert result.code == 2
    assert 'Choose from: "bash", "zsh", "fish"' in result.err
