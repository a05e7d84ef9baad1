"""For all tests: one thread. Test models are tiny, and two threads that wait for each other are slower than one."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch
from torch import Tensor

from kit import Result, padded, run_command

pytest.register_assert_rewrite("properties")
# A runner in the background may have told its children to ignore Ctrl-C; ours must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)


OF_PYTHON = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")  # these end with the process itself


@pytest.fixture(scope="session", autouse=True)
def _no_process_outlives_the_tests() -> Iterator[None]:
    """What a test has started has ended when all are done: one that goes on keeps the suite from ending."""
    yield
    started = running()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert [started[process] for process in alive] == []


def running() -> dict[psutil.Process, str]:
    """The processes that this one has started, and those that they have, with their commands."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            said = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and not any(name in said for name in OF_PYTHON):
                found[process] = said
        except psutil.NoSuchProcess:
            continue
    return found


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
