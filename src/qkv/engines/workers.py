"""Processes that decode side by side: forked from this one, they share its weights and not its interpreter's lock."""

import contextlib
import json
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from typing import Any, Never

import torch

from qkv.decoding.engine import Spread, Work
from qkv.decoding.plain import Plain


def can_fork() -> bool:
    """Only Linux is safe: Windows has no fork, and the libraries of macOS do not survive one."""
    return sys.platform == "linux"


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Within, a Ctrl-C waits: between a fork and its note, or before a worker is one, it would leave a process behind.

    Only the main thread is ever interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def no_warning_of_forks() -> Iterator[None]:
    """Within, `tokenizers` does not warn of every fork: workers use none. What was not in the environment leaves it."""
    name = "TOKENIZERS_PARALLELISM"
    is_new = name not in os.environ
    os.environ.setdefault(name, "true")
    try:
        yield
    finally:
        if is_new:
            os.environ.pop(name, None)


class Processes:
    """`count` processes that do `work`, one piece at a time each, with one thread of torch.

    They are copies of this process as it is now: what is loaded later they do not know. They end with it, or with
    `close`. What a worker cannot do (it was killed, or the work raised) is done here, so that an error shows itself
    where it can be caught.
    """

    def __init__(self, work: Work, count: int) -> None:
        self.work = work
        self.ends, self.ids = list[Connection](), list[int]()
        self.close = weakref.finalize(self, end_all, os.getpid(), self.ends, self.ids)  # at the latest when all ends
        with interrupts_wait(), no_warning_of_forks():
            for _ in range(count):
                self.fork()
        self.idle = SimpleQueue[Connection]()
        for end in self.ends:
            self.idle.put(end)

    def fork(self) -> None:
        """Start one; this process keeps one end of a pipe, the worker the other."""
        here, there = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if number := os.fork():
            there.close()
            self.ends.append(here)
            self.ids.append(number)
            return
        try:  # from here on, this is the worker
            here.close()
            for end in self.ends:  # or it would keep its elder siblings from seeing that all is over
                end.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the first process decides
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            torch.set_num_threads(1)
            serve(there, self.work)
        finally:
            os._exit(0)

    def __call__(self, pieces: Sequence[Any]) -> list[Any]:
        """The results of all pieces, in their order."""
        with ThreadPoolExecutor(len(self.ends)) as pool:
            return list(pool.map(self.one, pieces))

    def one(self, piece: Any) -> Any:
        end = self.idle.get()
        try:
            end.send_bytes(json.dumps(piece).encode())
            answer = json.loads(end.recv_bytes())
        except (OSError, EOFError):
            answer = None
        finally:
            self.idle.put(end)
        return self.work(piece) if answer is None else answer


def serve(end: Connection, work: Work) -> Never:
    """A worker's life: a piece in, a result out, until an EOFError says that nobody asks; null: the work raised."""
    while True:
        asked = json.loads(end.recv_bytes())
        try:
            answer = work(asked)
        except Exception:
            answer = None
        end.send_bytes(json.dumps(answer).encode())


def end_all(owner: int, ends: list[Connection], ids: list[int]) -> None:
    """End the workers, wherever they are in their work; only for the process that began them, not for its copies."""
    if os.getpid() == owner:
        for end, number in zip(ends, ids, strict=True):
            end.close()
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)


class SideBySide(Plain):
    """The same searches, which several processes can do side by side on a CPU."""

    def spread(self, work: Work, count: int) -> Spread | None:
        return Processes(work, count) if can_fork() and next(self.model.parameters()).device.type == "cpu" else None
