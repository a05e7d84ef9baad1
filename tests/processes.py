"""Processes of tests that train: forked from a server that has loaded all that is slow to load. And which are left."""

import json
import multiprocessing
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import psutil
import torch

import qkv
from qkv.training.optimizers import orthogonal
from qkv.training.ranks import ALONE, Ranks, joined

CONTEXT = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
PRELOADED = ["qkv", "torch._dynamo", "torch.utils.tensorboard", "matplotlib.figure", "matplotlib.backends.backend_agg"]
CONTEXT.set_forkserver_preload(PRELOADED)
MARK = "QKV_TESTS"  # a variable of the environment, another one for each run of the tests


def running() -> dict[psutil.Process, str]:
    """The processes that this one has started, and those that they have, with their commands; one whose parent was
    killed belongs to nobody here and is known by its mark. Python's own end with the process itself."""
    of_python = (forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid)
    this, found = psutil.Process(), dict[psutil.Process, str]()
    started = this.children(recursive=True)
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process == this or process.pid in of_python or process.username() != this.username():
                continue
            is_ours = process in started or process.environ().get(MARK) == os.environ[MARK]
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found[process] = " ".join(process.cmdline())
    return found


def finish(process: Any) -> int:
    process.join(300)
    assert process.exitcode is not None, "the run hangs"
    return int(process.exitcode)


def start_ranks(count: int, *given: Any, **settings: Any) -> list[Any]:
    """A run of several ranks, started as torchrun does."""
    return start_each(count, qkv.train, *given, **{"quiet": True, **settings})


def start_each(count: int, function: Callable[..., Any], *given: Any, **named: Any) -> list[Any]:
    """A function of a module in so many processes, each of which knows its rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    places = [{**shared, "RANK": number, "LOCAL_RANK": number} for number in range(count)]
    processes = [CONTEXT.Process(target=in_place, args=(place, function, given, named)) for place in places]
    for process in processes:
        process.start()
    return processes


def in_place(
    place: dict[str, int], function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    os.environ.update({name: str(value) for name, value in place.items()})
    function(*given, **named)


def train_apart(place: Path, *given: Any, steps_of: Sequence[int | None] = (None, None), **settings: Any) -> None:
    """A run whose ranks have a folder each, and perhaps steps; what it is refused with, in a file."""
    rank = int(os.environ["RANK"])
    try:
        qkv.train(*given, out=place / str(rank), steps=steps_of[rank], quiet=True, **settings)
    except qkv.InputError as error:
        (place / "said.txt").write_text(str(error))


def together(function: Callable[..., Any], *given: Any) -> None:
    """Call a function with the ranks of which this process is one."""
    with joined() as ranks:
        function(ranks, *given)


def share(ranks: Ranks, place: Path) -> None:
    """What a rank computes and what it gets, in a file."""
    computed: list[int] = []

    def square(number: int) -> list[float]:
        computed.append(number)
        return [number * number / 3, float("nan") if number == 2 else number]

    every = [list(ranks.map(square, iter(range(count)))) for count in (5, 1, 0)]
    torch.manual_seed(0)
    matrices = [torch.randn(5, 6, 3), torch.randn(1, 4, 4).bfloat16()]
    moves = [ranks.shared_out(orthogonal, several) for several in matrices]
    same = [
        torch.equal(one, ALONE.shared_out(orthogonal, several)) for one, several in zip(moves, matrices, strict=True)
    ]
    (place / f"{ranks.number}.json").write_text(json.dumps([computed, repr(every), same]))
