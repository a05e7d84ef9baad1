"""`--ranks`: one command as several processes of one machine, as torchrun starts them; it does so for several machines.

Unlike torchrun's, a run that a person has stopped or asked wrongly is not begun again, and its sentence is said once.
"""

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from qkv import lifeline

RESTARTS = 3  # after a rank has died, from the newest checkpoint
GRACE = 60.0  # seconds in which the others may end by themselves
LOOK = 0.05  # seconds between looks at them


def is_rank() -> bool:
    """Whether this process was started as one of several."""
    return "WORLD_SIZE" in os.environ


def run_ranks(count: int, command: Sequence[str]) -> int:
    """The exit code of a command that runs as so many ranks, each with its share of the cores."""
    for _ in range(RESTARTS + 1):
        if (code := run_once(count, command)) >= 0:
            return code
        print(f"a rank has died ({signal.Signals(-code).name}): beginning again from the newest checkpoint",
              file=sys.stderr)  # fmt: skip
    print("ranks die again and again; the same command goes on from the newest checkpoint", file=sys.stderr)
    return 1


def run_once(count: int, command: Sequence[str]) -> int:
    """0 if all ranks end well; below 0 the signal by which one has died; or else the code of one that has failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = os.environ.get("OMP_NUM_THREADS") or max(1, (os.cpu_count() or 1) // count)
    shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
              "OMP_NUM_THREADS": threads}  # fmt: skip
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: Any) -> None:
        if number == signal.SIGTERM:  # Ctrl-C reaches all processes of a terminal by itself
            for rank in ranks:
                rank.terminate()

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in range(count):
            own = {**shared, "RANK": number, "LOCAL_RANK": number, lifeline.VARIABLE: 1}
            env = {**os.environ, **{name: str(value) for name, value in own.items()}}
            ranks.append(subprocess.Popen(command, env=env, stdin=subprocess.PIPE))  # which closes with this process
        return ended(ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
        for number, handler in before.items():
            signal.signal(number, handler)


def ended(ranks: "Sequence[subprocess.Popen[bytes]]") -> int:
    """Wait for all ranks, but not for ever once one has failed: the others may be waiting for it."""
    until = math.inf
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < until:
        if any(rank.poll() for rank in ranks):
            until = min(until, time.monotonic() + GRACE)
        time.sleep(LOOK)
    codes = [rank.poll() or 0 for rank in ranks]
    return min(codes) if min(codes) < 0 else max(codes)
