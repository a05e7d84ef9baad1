"""What a person sees of a run: sentences, and a live line with speed, loss and time left."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress

from qkv.evaluation import in_words

SHOWN = ("loss", "perplexity", "bleu", "accuracy")  # of all figures of a validation
SLOW = 15.0  # seconds between lines where no live line can be shown (a file, a pipe, CI)

Update = Callable[..., None]


class Display:
    """Sentences go to standard error, so that standard output stays free for results."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.update: Update | None = None  # of the live line
        self.recent: deque[tuple[float, int, float]] = deque(maxlen=50)  # when, tokens, loss
        self.printed = 0.0
        self.validation = ""
        self.unit = "tokens"  # what speed is counted in

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False)

    @contextmanager
    def bar(
        self, *columns: str | BarColumn, what: str = "starting", total: float | None = 1.0, transient: bool = True
    ) -> Iterator[Update | None]:
        """A live line, and what moves it on; None where none can be shown."""
        if not self.console.is_terminal:
            yield None
            return
        with Progress(*columns, console=self.console, transient=transient, refresh_per_second=4) as progress:
            yield partial(progress.update, progress.add_task(what, total=total))

    @contextmanager
    def counting(self, what: str, total: int | None, unit: str = "pairs") -> Iterator[Callable[[int], None]]:
        """A bar for reading, writing or translating many lines."""
        columns = ("{task.description}", BarColumn(30), "{task.completed:,} " + unit)
        with self.bar(*columns, what=what, total=total) as update:
            yield lambda done: update(completed=done) if update else None

    @contextmanager
    def training(self) -> Iterator[None]:
        columns = (BarColumn(24), "{task.percentage:>3.0f}%", "{task.description}")
        with self.bar(*columns, transient=False) as self.update:
            yield

    def step(self, event: dict[str, Any], progress: float, left: float | None) -> None:
        now = time.monotonic()
        self.recent.append((now, event["tokens"], event["loss"]))
        line = self.line(event, left)
        if self.update:
            self.update(completed=progress, description=line)
        elif now - self.printed >= SLOW:
            self.printed = now
            self.say(line)

    def line(self, event: dict[str, Any], left: float | None) -> str:
        seconds = self.recent[-1][0] - self.recent[0][0]
        tokens = sum(t for _, t, _ in list(self.recent)[1:])
        losses = [loss for _, _, loss in self.recent if math.isfinite(loss)]
        loss = sum(losses) / len(losses) if losses else math.nan
        speed = f"{tokens / seconds:,.0f} {self.unit}/s" if seconds else "measuring speed"
        ahead = f", {duration(left)} left" if left is not None else ""
        return (
            f"epoch {event['epoch']:.2f}, step {event['step']:,}: loss {loss:.3f}, rate {event['learning_rate']:.2e}, "
            f"{speed}{ahead}{self.validation}"
        )

    def validated(self, event: dict[str, Any]) -> None:
        figures = in_words({name: event[name] for name in SHOWN if name in event})
        self.validation = f" | valid: {figures}"
        best = " (best)" if event["best"] else ""
        self.say(f"epoch {event['epoch']:.2f}, step {event['step']:,}: validation {figures}{best}")


def duration(seconds: float) -> str:
    seconds = max(round(seconds), 0)  # what was estimated may be over
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
