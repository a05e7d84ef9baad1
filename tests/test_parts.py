"""Parts of one's own: named in Python or by --import, remembered by the model folder, never run by it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import Result, some_pairs, write_tsv
from qkv import parts

PARTS = '''"""What a user wrote."""
import qkv
from qkv.attention.soft import Soft

class Nearby(Soft):
    """Each query sees keys nearer than `reach`."""
    uses = ("encoder",)

    def __init__(self, sizes, *, reach: int = 2, score: str = "scaled_dot", dropout: float = 0.0):
        super().__init__(sizes, score=score, dropout=dropout)
        self.reach = reach

    def region(self, at):
        return (at.query[:, None] - at.key).abs() < self.reach

qkv.register("attention", "nearby", Nearby)
qkv.register("schedules", "flat", lambda: lambda step, progress: 0.5)
'''
TINY = ["--model.d-model", "16", "--model.d-ff", "32", "--model.n-heads", "2", "--model.encoder-layers", "1",
        "--model.decoder-layers", "1", "--training.bleu-sentences", "0", "--training.threads", "1"]  # fmt: skip


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """The tables as they were."""
    yield
    parts.forget()


def test_a_users_part_from_the_command_line(command: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "my_parts.py").write_text(PARTS)
    write_tsv(tmp_path / "pairs.tsv", some_pairs(60))
    train = ["train", "pairs.tsv", "--from", "en", "--to", "ne", "--steps", "2", "--out", "model", *TINY]
    own = ["--model.encoder-attention", "nearby(reach=3)", "--training.schedule", "flat"]
    trained = command("--import", "my_parts.py", *train, *own)
    assert trained.code == 0, trained.err
    assert "nearby" in command("list", "attention", "--import=my_parts.py").out
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["imports"] == {"attention nearby": "my_parts.py"}, "the schedule is of the run, not of the model"
    assert command("translate", "red cat", "--model", "model", "--import", "my_parts.py").code == 0
    parts.forget()
    result = command("translate", "red cat", "--model", "model")
    assert result.code == 1
    assert result.err == (
        "qkv: model was made with a part of somebody's own, 'nearby' of attention; give --import my_parts.py, or in "
        "Python import my_parts before qkv.load\n"
    )
    assert "unknown name 'flat'" in command(*train, *own, "--restart").err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "there is no such file of Python"),
        ("import qkv\n1 / 0\n", "line 2: ZeroDivisionError: division by zero; mend the file"),
        ("import qkv\nqkv.register('attention', 'soft', 3)\n", "3 is no part, since it cannot be called"),
        ("def x(:\n", "SyntaxError"),
    ],
)
def test_a_file_that_is_wrong(command: Callable[..., Result], tmp_path: Path, content: Any, sentence: str) -> None:
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    result = command("list", "attention", "--import", "mine.py")
    assert result.code == 1
    assert result.err.startswith("qkv: --import mine.py")
    assert sentence in result.err
    assert result.err.count("\n") == 1


def test_names_are_checked() -> None:
    for table, name, part, sentence in (
        ("atention", "mine", int, "did you mean 'attention'"),
        ("attention", "my-own", int, "'my-own' is no name for a part"),
        ("positions", "rotary", int, "'rotary' is a name that qkv has in positions already"),
        ("positions", "mine", 3, "3 is no part"),
    ):
        with pytest.raises(qkv.InputError, match=sentence):
            qkv.register(table, name, part)  # type: ignore[arg-type]
    qkv.register("positions", "mine", int)
    qkv.register("positions", "mine", float)  # again, as in a notebook
    assert parts.OWN["positions", "mine"].part is float
    assert parts.needed_by({"position": "mine(a=2)", "other": ["mines"]}) == {"positions mine": ""}
    assert parts.needed_by({"position": "mines", "mine": "x"}) == {}, "whole names, and no keys"
