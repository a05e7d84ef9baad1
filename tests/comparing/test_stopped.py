"""A comparison that is stopped by Ctrl-C goes on where it was; how a process ended badly, in words."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qkv.comparing import Comparison, compare
from qkv.comparing.shared import Spec
from qkv.comparing.workers import Worker, fraction

RUN = "position=none-5"


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "runs" / RUN / "training" / "checkpoints").glob("step-*"))


def once_it_trains(out: Path, act: Callable[[], object]) -> None:
    """Another thread that waits for a new checkpoint, then acts once."""
    before = checkpoints(out)

    def watch() -> None:
        while checkpoints(out) == before:
            time.sleep(0.005)
        act()

    threading.Thread(target=watch, daemon=True).start()


def run(recipe: Path) -> Comparison:
    return compare(recipe, vary=["position=none"], beam=1, out=recipe.parent / "out")


def children() -> list[int]:
    told = Path(f"/proc/{os.getpid()}/task")
    return [int(pid) for task in told.iterdir() for pid in (task / "children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds its child processes by /proc, as Linux has it")
def test_ctrl_c_saves_and_the_same_call_goes_on(long_recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = long_recipe.parent / "out"
    result = out / "runs" / RUN / "result.json"
    before = set(children())  # what other tests started and keep

    once_it_trains(out, lambda: os.kill(os.getpid(), signal.SIGINT))
    stopped = run(long_recipe)
    assert stopped.interrupted
    assert not set(children()) - before, "no process is left behind"
    reached = checkpoints(out)[-1]
    log = [json.loads(line) for line in (out / "runs" / RUN / "training" / "log.jsonl").read_text().splitlines()]
    assert reached == f"step-{log[-1]['step']:08d}" < "step-00000120", "the very last step is saved"
    assert not result.exists()
    assert "0 of 1 runs are done. The same command goes on from here" in capsys.readouterr().err
    assert "waiting" in (out / "table.md").read_text()

    assert run(long_recipe).failed == 0
    assert json.loads(result.read_text())["steps"] == 120
    told = (out / "runs" / RUN / "log.txt").read_text()
    assert f"going on from step {int(reached[5:])} " in told


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL, perhaps for want of memory"),
        ("os.kill(os.getpid(), 15)", "its process was ended by SIGTERM"),
        ("print('one'); print('qkv: no such file'); sys.exit(1)", "no such file"),
        ("sys.exit(3)", "its process ended with code 3"),
        ("print('qkv: a remark')", ""),
    ],
)
def test_why_a_process_failed(code: str, sentence: str, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("qkv: of an earlier process\n")
    size = log.stat().st_size
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, "-S", "-c", f"import os, sys; {code}"], stdout=file)
    process.wait()
    spec = Spec("a", 1, "a-1", {}, {}, "")
    assert Worker(spec, process, log, size, 0.0).failure() == sentence


def test_how_much_of_a_run_is_done(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    limits = {"steps": 100, "epochs": 2.0, "minutes": 0.0}
    assert fraction(log, limits) == 0.0
    events = [{"event": "train", "step": 20, "epoch": 1.5, "seconds": 30.0}, {"event": "valid", "step": 20}]
    log.write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "tr')
    assert fraction(log, limits) == 0.75  # by the limit that is nearest
    assert fraction(log, {"minutes": 2.0}) == 0.25
    assert fraction(log, {}) == 0.0
