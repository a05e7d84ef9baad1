"""Processes that train, a few at a time; a live line says which, how many are done and how long it will take."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.progress import BarColumn

from qkv.comparing.shared import Spec
from qkv.config import Tree
from qkv.files import write_json
from qkv.training.display import Display, duration

LOOK = 0.1  # seconds between looks at the processes
STOP = signal.SIGINT if os.name == "posix" else signal.SIGTERM

Ended = Callable[[Spec, str], None]  # a run, and why it failed, or nothing


@dataclass
class Worker:
    """A process and what it does."""

    spec: Spec
    process: subprocess.Popen[bytes]
    log: Path
    log_size: int  # of the log, before it began
    began_at: float  # how much of the run was done when it began: 0 to 1

    def failure(self) -> str:
        """Why the process ended badly, in its own words where it left any; nothing if it ended well."""
        code = self.process.returncode
        if not code:
            return ""
        if code < 0:
            why = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
            return f"its process was ended by {signal.Signals(-code).name}{why}"
        with self.log.open("rb") as file:
            file.seek(self.log_size)
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("qkv: ") if lines else f"its process ended with code {code}"


class Workers:
    """Runs specs in `place`, `jobs` at a time, each on one thread if there are several."""

    def __init__(self, place: Path, specs: Sequence[Spec], jobs: int, display: Display) -> None:
        self.place, self.waiting, self.jobs, self.display = place, deque(specs), jobs, display
        self.running: list[Worker] = []
        self.total, self.done, self.began = len(specs), 0, time.monotonic()

    def go(self, ended: Ended) -> None:
        """Run all; Ctrl-C lets those that run save themselves, and is raised again."""
        columns = (BarColumn(24), "{task.completed} of {task.total} runs", "{task.description}")
        with self.display.bar(*columns, total=self.total) as update:
            try:
                while self.waiting or self.running:
                    while self.waiting and len(self.running) < self.jobs:
                        self.running.append(self.start(self.waiting.popleft()))
                    time.sleep(LOOK)
                    for worker in [worker for worker in self.running if worker.process.poll() is not None]:
                        self.running.remove(worker)
                        self.done += 1
                        ended(worker.spec, worker.failure())
                    if update:
                        update(completed=self.done, description=self.line())
            finally:
                self.stop()

    def start(self, spec: Spec) -> Worker:
        folder = self.place / spec.folder
        write_json(folder / "spec.json", asdict(replace(spec, threads=1 if self.jobs > 1 else 0)))
        log = folder / "log.txt"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "qkv.comparing.one", str(folder / "spec.json")],
                stdin=subprocess.PIPE,  # closes when this process is gone, whatever became of it
                stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C comes here alone, and is passed on once
            )  # fmt: skip
            return Worker(spec, process, log, file.tell(), self.fraction(spec))

    def stop(self) -> None:
        """Let what runs save itself and end; a second Ctrl-C does not wait for it."""
        try:
            for worker in self.running:
                worker.process.send_signal(STOP)
            for worker in self.running:
                worker.process.wait()
        except KeyboardInterrupt:
            for worker in self.running:
                worker.process.kill()

    # -- telling -------------------------------------------------------------------------------------------------

    def line(self) -> str:
        now = ", ".join(f"{w.spec.row} (seed {w.spec.seed}): {self.fraction(w.spec):.0%}" for w in self.running)
        left = self.left()
        return now + (f"; about {duration(left)} left" if left is not None else "")

    def left(self) -> float | None:
        """Seconds to the end, if what remains goes as fast as what was done."""
        made = self.done + sum(self.fraction(worker.spec) - worker.began_at for worker in self.running)
        begun = sum(worker.began_at for worker in self.running)
        return (time.monotonic() - self.began) * (self.total - begun - made) / made if made > 0.02 else None

    def fraction(self, spec: Spec) -> float:
        """How much of a run is done, by its own log."""
        return fraction(self.place / spec.folder / "training" / "log.jsonl", spec.settings.get("training", {}))


def fraction(log: Path, limits: Tree) -> float:
    try:
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if '"train"' in line]
        last = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return 0.0
    done = {"steps": last["step"], "epochs": last["epoch"], "minutes": last["seconds"] / 60}
    return min(1.0, max((done[name] / limits[name] for name in done if limits.get(name)), default=0.0))
