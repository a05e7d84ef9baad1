"""What a person sees of long work: sentences, and a live line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, Progress

Update = Callable[..., None]


class Display:
    """Sentences go to standard error, so that standard output stays free for results."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

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


def duration(seconds: float) -> str:
    seconds = max(round(seconds), 0)  # what was estimated may be over
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
