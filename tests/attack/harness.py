"""A command of qkv in a process of its own, watched: how it ended, what it said, how long it took, how much it held.

How much `make attack` tries is set by the environment: QKV_ATTACK=short is a hundredth of everything, a minute or two
in all; QKV_ATTACK_FLIPS=50 sets one count. What was found goes to a file for each part in QKV_ATTACK_TABLE.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from processes import CONTEXT, PRELOADED
from qkv.cli import MODULES

ROOT = Path(__file__).parents[2]
SECONDS = 20.0  # within which a command ends on a busy machine, whatever it is given
BYTES = 2**31  # that no command may hold
COUNTS = {
    "inputs": 1000,
    "flips": 1000,
    "kills": 100,
    "requests": 100_000,
    "slow": 500,
    "load_seconds": 1200,
    "loading": 500,
}
LEAST = {
    "inputs": 60,
    "flips": 60,
    "kills": 8,
    "requests": 1000,
    "slow": 60,
    "load_seconds": 12,
    "loading": 100,
}  # short
SEED = int(os.environ.get("QKV_ATTACK_SEED", "1"))
TABLE = os.environ.get("QKV_ATTACK_TABLE", "")
CONTEXT.set_forkserver_preload(
    [*PRELOADED, *(f"qkv.cli.{name}" for name in MODULES), "qkv.comparing", "qkv.opening", "qkv.training.run"]
)


def count(part: str) -> int:
    """How many of a part are tried."""
    is_short = os.environ.get("QKV_ATTACK") == "short"
    return int(os.environ.get(f"QKV_ATTACK_{part.upper()}", (LEAST if is_short else COUNTS)[part]))


@cache
def commit() -> str:
    """That which is tried, when it was first asked for; with a + where its files are not those of the commit."""
    said = [
        subprocess.run(["git", *words], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
        for words in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "src", "native", "tests"])
    ]
    return said[0] + "+" * bool(said[1])


def record(part: str, *rows: dict[str, Any]) -> None:
    """Keep what was found of a part for the table: each row has at least what was `given` and the `fault`, or none."""
    if TABLE:
        path, made = Path(TABLE, f"{part}.jsonl"), {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row | made) + "\n" for row in rows)


@dataclass(frozen=True)
class Verdict:
    """How a command ended."""

    given: tuple[str, ...]
    code: int | None  # None: it did not end
    said: str  # on standard error
    out: str
    seconds: float
    peak: int  # bytes

    @property
    def fault(self) -> str:
        """What is wrong with it, or nothing: it worked, or refused in one sentence."""
        if self.code is None:
            return f"hung for {self.seconds:.0f} s"
        if "Traceback" in self.said:
            return self.said.strip().splitlines()[-1]
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        if self.peak > BYTES:
            return f"held {self.peak / 2**20:,.0f} MB"
        if self.code not in (0, 130) and not any(line.startswith("qkv: ") for line in self.said.splitlines()):
            return f"ended with {self.code} and not a word"
        return ""

    def __str__(self) -> str:
        last = self.said.strip().splitlines()[-1:] or [""]
        told = self.fault or last[0][:160]
        return f"{self.code} {self.seconds:5.1f} s {self.peak / 2**20:6,.0f} MB  {' '.join(self.given)[:90]!r}: {told}"


def attack(
    place: Path, *given: str, seconds: float = SECONDS, stdin: str = "/dev/null", asked: float | None = None
) -> Verdict:
    """Run a command in `place`, for so long at most; one that need not end by itself is `asked` to, after so long."""
    out, said = place / ".out", place / ".said"
    process = CONTEXT.Process(target=run, args=(place, given, out, said, stdin))
    process.start()
    began, peak, is_asked = time.monotonic(), 0, asked is None
    while process.is_alive() and (past := time.monotonic() - began) < seconds and peak <= 2 * BYTES:
        process.join(0.02)
        peak = max(peak, held(process.pid))
        if asked is not None and not is_asked and past > asked:
            os.kill(process.pid or 0, signal.SIGINT)
            is_asked = True
    code = process.exitcode
    if code is None:
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        code = -signal.SIGKILL if peak > 2 * BYTES else None
    read = [path.read_text(encoding="utf-8", errors="replace") if path.exists() else "" for path in (said, out)]
    return Verdict(given, code, read[0], read[1], time.monotonic() - began, peak)


def held(pid: int | None) -> int:
    """The most memory that a process has held so far: bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def run(place: Path, given: Sequence[str], out: Path, said: Path, stdin: str) -> None:
    """In the new process: be the command line."""
    from qkv.cli import main

    os.chdir(place)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for path, number in ((stdin, 0), (out, 1), (said, 2)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags), number)
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        mode = "r" if number == 0 else "w"
        stream = open(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
    sys.argv = ["qkv", *given]
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 99
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)
