"""For all tests: one thread. Test models are tiny, and two threads that wait for each other are slower than one."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch
from torch import Tensor

from kit import Result, padded, run_command
from processes import MARK, running

pytest.register_assert_rewrite("properties")
# A runner in the background may have told its children to ignore Ctrl-C; ours must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)


os.environ[MARK] = secrets.token_hex(8)  # handed on to every process that a test starts


@pytest.fixture(scope="session", autouse=True)
def _no_process_outlives_the_tests() -> Iterator[None]:
    """What a test has started has ended when all are done: one that goes on keeps the suite from ending."""
    yield
    started = running()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert [started[process] for process in alive] == []


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """`command("predict", "a text", stdin="")` runs the command line in tmp_path, in this process."""
    monkeypatch.chdir(tmp_path)
    return partial(run_command, monkeypatch)


@pytest.fixture
def src(request: pytest.FixtureRequest) -> Tensor:
    """Four sentences in the vocabulary V of the file that asks for them."""
    return padded([9, 5, 1, 7], request.module.V)


@pytest.fixture
def tgt(request: pytest.FixtureRequest) -> Tensor:
    """Four more, of up to T words."""
    return padded([4, request.module.T, 2, 1], request.module.V, seed=2)
