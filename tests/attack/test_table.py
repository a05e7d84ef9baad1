"""The table of `make attack`: whole where there are faults, of one commit in each part, and no row counted twice."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attack import table

ROOT = Path(__file__).parents[2]
MODULES = {path.stem.removeprefix("test_"): path.read_text() for path in Path(__file__).parent.glob("test_*.py")}
PARTS = {name: {*re.findall(r'\brecord\("(\w+)"', text)} for name, text in MODULES.items()}
FLIP = {"given": "config.json byte 1 bit 1", "folder": "model", "fault": "", "how": "seen", "date": "2026-01-01"}


def rows(place: Path, name: str, *some: dict[str, str]) -> None:
    (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))


def test_faults_have_their_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path, "flips", {**FLIP, "commit": "a1"}, {**FLIP, "commit": "a1", "fault": "unseen by check"})
    table.main(tmp_path)
    said = capsys.readouterr().out
    assert "| bits flipped | 2 | 1,000 | 1 |  |  | a1, 2026-01-01 |" in said
    assert "- flips: config.json byte 1 bit 1: unseen by check" in said


def test_rows_of_two_commits_are_no_part(tmp_path: Path) -> None:
    rows(tmp_path, "flips", {**FLIP, "commit": "a1"}, {**FLIP, "commit": "b2"})
    with pytest.raises(SystemExit, match=r"flips.jsonl has rows of several commits \(a1, b2\); try that part anew"):
        table.main(tmp_path)


@pytest.mark.parametrize("part", ["", *(name for name, written in PARTS.items() if written)])
def test_a_part_begins_its_rows_anew(part: str) -> None:
    """`make` removes the files of all that a module records, and no others; said, and not done."""
    done = subprocess.run(
        ["make", "-n", "attack", f"PART={part}"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    removed = next(line for line in done.stdout.splitlines() if line.startswith("rm "))
    assert {*re.findall(r"build/attack/(.*?)\.jsonl", removed)} == (PARTS[part] if part else {"*"})


def test_a_run_with_faults_writes_its_table_and_fails(tmp_path: Path) -> None:
    """The recipe of `make attack` itself, in another folder and with a suite that fails."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for name in ("tests/attack", "docs/results", "build/attack", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tests" / "attack" / "table.py").write_bytes(Path(table.__file__).read_bytes())
    row = json.dumps({**FLIP, "commit": "a1", "fault": "unseen"})
    fails = f"def test_flip():\n    open('build/attack/flips.jsonl', 'w').write({row!r})\n    assert False\n"
    (tmp_path / "tests" / "attack" / "test_flips.py").write_text(f"import pytest\n@pytest.mark.attack\n{fails}")
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = ["make", "-o", ".venv/ready", "attack", "PART=flips"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "- flips: config.json byte 1 bit 1: unseen" in (tmp_path / "docs" / "results" / "attack.md").read_text()
