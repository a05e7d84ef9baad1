"""A comparison whose own process is killed leaves no run behind that trains on, and goes on when it is called again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qkv.comparing import compare
from qkv.files import alone


@pytest.mark.skipif(os.name != "posix", reason="kills a process, as POSIX has it")
def test_a_run_ends_with_the_process_that_started_it(long_recipe: Path) -> None:
    out = long_recipe.parent / "out"
    command = [sys.executable, "-m", "qkv", "compare", str(long_recipe), "--vary", "position=none", "--beam", "1"]
    process = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.DEVNULL)
    run = out / "runs" / "position=none-5"
    while process.poll() is None and not list(run.glob("training/checkpoints/step-*")):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    free = False
    for _ in range(600):  # the run's lock falls when its process is gone
        try:
            with alone(run / "training.lock", "taken"):
                free = True
                break
        except ValueError:
            time.sleep(0.1)
    assert free
    assert not (run / "result.json").exists(), "it was killed too late to prove anything"
    steps = {path.name for path in run.glob("training/checkpoints/step-*")}
    time.sleep(0.3)
    assert {path.name for path in run.glob("training/checkpoints/step-*")} == steps, "it trains on"

    found = compare(long_recipe, vary=["position=none"], beam=1, out=out, quiet=True)
    assert (found.failed, found.interrupted) == (0, False)
    assert found.table.entries[0].results[0]["steps"] == 120
    assert "going on from step" in (run / "log.txt").read_text()
