"""For all tests: one thread. Test models are tiny, and two threads that wait for each other are slower than one."""

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from kit import Result, run_command

# A runner in the background may have told its children to ignore Ctrl-C; ours must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """`command("predict", "a text", stdin="")` runs the command line in tmp_path, in this process."""
    monkeypatch.chdir(tmp_path)
    return partial(run_command, monkeypatch)
