"""One process that trains: how it is started, how far it is, and why it failed if it did."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from qkv import parts
from qkv.comparing.shared import Spec
from qkv.config import Tree
from qkv.files import write_json
from qkv.folder import RunFolder

LITTLE = 0.01  # of a run: less than that does not tell how long the whole takes


@dataclass
class Worker:
    """A process and what it does."""

    spec: Spec
    process: subprocess.Popen[bytes]
    log: Path
    log_size: int  # of the log, before it began
    began_at: float = 0.0  # how much of the run was done when it began: 0 to 1
    trained_before: float = 0.0  # seconds
    began: float = field(default_factory=time.time)

    @classmethod
    def start(cls, spec: Spec, folder: Path) -> "Worker":
        write_json(folder / "spec.json", asdict(spec))
        log = folder / "log.txt"
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "qkv.comparing.one", str(folder / "spec.json"), *map(str, parts.IMPORTED)],
                stdin=subprocess.PIPE,  # closes when this process is gone, whatever became of it
                stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C comes here alone, and is passed on once
            )  # fmt: skip
            worker = cls(spec, process, log, file.tell())
        worker.began_at, worker.trained_before = worker.fraction, trained_seconds(worker.training_log)
        return worker

    @property
    def fraction(self) -> float:
        """How much of the run is done, by its own log."""
        return fraction(self.training_log, self.spec.settings.get("training", {}))

    @property
    def training_log(self) -> Path:
        return RunFolder(self.log.parent).log

    @property
    def whole(self) -> float:
        """Seconds that the whole run takes, at the pace so far, or took; 0 while no step is done. To measure at the end
        takes about as long as to begin."""
        if self.process.poll() is not None:
            return (time.time() - self.began) / max(1 - self.began_at, LITTLE)
        made, trained = self.fraction - self.began_at, trained_seconds(self.training_log) - self.trained_before
        if made <= 0 or trained <= 0:
            return 0.0
        to_begin = self.training_log.stat().st_mtime - self.began - trained
        return 2 * max(to_begin, 0.0) + trained / made

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


def fraction(log: Path, limits: Tree) -> float:
    last = last_step(log)
    if not last:
        return 0.0
    done = {"steps": last["step"], "epochs": last["epoch"], "minutes": last["seconds"] / 60}
    return min(1.0, max((done[name] / limits[name] for name in done if limits.get(name)), default=0.0))


def trained_seconds(log: Path) -> float:
    return float(last_step(log).get("seconds", 0.0))


def last_step(log: Path) -> Tree:
    """The last line that training wrote of its steps; nothing while there is none."""
    try:
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if '"train"' in line]
        found: Tree = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return {}
    return found
