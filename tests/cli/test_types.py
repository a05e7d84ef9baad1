"""A program of somebody who uses qkv, as a strict type checker sees it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qkv

ROOT = Path(__file__).parents[2]
SCRIPT = """
from pathlib import Path
from typing import Any

import qkv


def listen(record: dict[str, Any]) -> bool:
    return record["event"] == "valid" and bool(record["best"])


trained: qkv.Trained = qkv.train(
    pairs=[("Two dogs.", "Zwei Hunde.")], source="en", target="de", minutes=1, on_event=listen, model={"d_model": 64}
)
steps: int = trained.steps
translator: qkv.Translator = qkv.load(trained.out, engine="auto")
line: str = translator.translate("Two dogs.", beam=5, n_best=3).text
lines: list[str] = [one.text for one in translator.translate(["Two dogs.", "A cat."], alpha=0.6)]
bleu: float = translator.score("test.en", Path("test.de")).bleu
links: list[tuple[int, int]] = translator.align("Two dogs.", "Zwei Hunde.")
many: int = translator.translate_file("a.po", "b.po", final=True).translated
writer: qkv.Generator = qkv.load("lm")
text: str = writer.generate("Once", tokens=20, temperature=0.8).text
with qkv.record_attention(translator) as maps:
    sizes: tuple[int, ...] = maps["encoder.blocks.0.attention"].shape
try:
    qkv.register("schedules", "mine", lambda: lambda step, progress: 1.0)
except qkv.InputError as error:
    print(error)
"""
MISTAKES = """
number: int = translator.translate("a").text
translator.translate("a", beem=3)
qkv.train(pears=[])
translator.transalte("a")
"""


def checked(script: str, place: Path, *how: str) -> tuple[int, list[str]]:
    """What mypy says of a script: its exit code, and the lines of its errors."""
    (path := place / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--no-color-output", *how, str(path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    own = re.findall(rf"{path.name}:(\d+): error:", said.stdout)  # the folder may be an earlier run's
    assert own or not said.returncode, said.stdout + said.stderr
    return said.returncode, own


def test_a_users_script_is_typed(tmp_path: Path) -> None:
    """Both at once, since mypy takes seconds: what is right passes, and each mistake is seen. The settings are the
    project's own, which are strict, so that what `make types` has learned is known already."""
    lines = SCRIPT.count("\n")
    code, wrong = checked(SCRIPT + MISTAKES, tmp_path)
    assert (code, {*wrong}) == (1, {str(lines + 2 + i) for i in range(4)})
    assert (Path(qkv.__file__).parent / "py.typed").exists()


@pytest.mark.slow
def test_and_by_strict_alone(tmp_path: Path) -> None:
    how = ("--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={tmp_path / 'cache'}")
    assert checked(SCRIPT, tmp_path, *how) == (0, [])
