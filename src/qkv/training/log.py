"""The log of a run: JSON lines, TensorBoard if it is installed, and a picture of the curves."""

import json
import math
import time
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.files import write_text
from qkv.folder import RunFolder
from qkv.look import draw_curves

EVERY = 1.0  # seconds of training that one line stands for


class Log:
    """training/log.jsonl; training steps are summed up, everything else is a line of its own."""

    def __init__(self, folder: RunFolder, from_step: int) -> None:
        self.path, self.picture = folder.log, folder.curves
        self.best: dict[str, float] = {}  # the figures of the best validation
        if self.path.exists():  # a killed run may have logged more than it saved
            kept = [line for line in self.path.read_text(encoding="utf-8").splitlines() if step_of(line) <= from_step]
            write_text(self.path, "".join(line + "\n" for line in kept))
            for line in kept:
                self.remember(json.loads(line))
        self.file = self.path.open("a", encoding="utf-8")
        self.board = tensorboard(folder.place)
        self.waiting: list[dict[str, Any]] = []
        self.since = self.drawn = time.monotonic()

    def event(self, event: dict[str, Any]) -> None:
        if event["event"] != "train":
            self.remember(event)
            self.flush()
            self.write(event)
            return
        self.waiting.append(event)
        if time.monotonic() - self.since >= EVERY:
            self.flush()

    def flush(self) -> None:
        """One line for the steps since the last: mean loss, weighted by tokens, and tokens a second."""
        steps, elapsed = self.waiting, time.monotonic() - self.since
        self.waiting, self.since = [], time.monotonic()
        if steps:
            tokens = sum(step["tokens"] for step in steps)
            good = [step for step in steps if math.isfinite(step["loss"])]  # the others are lines of their own
            loss = sum(step["loss"] * step["tokens"] for step in good) / max(1, sum(step["tokens"] for step in good))
            speed = round(tokens / max(elapsed, 1e-9))
            self.write({**steps[-1], "loss": loss if good else None, "tokens": tokens, "tokens_per_second": speed})

    def write(self, event: dict[str, Any]) -> None:
        numbers = {name: value for name, value in event.items() if isinstance(value, float)}
        unknown = {name: None for name, value in numbers.items() if not math.isfinite(value)}  # JSON has no NaN
        print(json.dumps({**event, **unknown}), file=self.file, flush=True)
        if self.board is not None and "step" in event:
            for name in numbers.keys() - unknown.keys():
                self.board.add_scalar(f"{event['event']}/{name}", numbers[name], event["step"])

    def remember(self, event: dict[str, Any]) -> None:
        if event.get("event") == "valid" and event.get("best"):
            self.best = {key: value for key, value in event.items() if isinstance(value, float)}

    def draw(self, at_least: float = 0.0) -> str:
        """Draw the curves if the last picture is older than that many seconds; returns why not, if it cannot."""
        if time.monotonic() - self.drawn < at_least:
            return ""
        self.drawn = time.monotonic()
        try:
            draw_curves(self.path, self.picture)
        except InputError as error:
            return str(error)
        return ""

    def close(self) -> None:
        self.flush()
        self.file.close()
        if self.board is not None:
            self.board.close()


def step_of(line: str) -> float:
    try:
        return float(json.loads(line).get("step", 0))
    except (ValueError, AttributeError):
        return float("inf")  # half a line: the run was killed while it wrote


def tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))
