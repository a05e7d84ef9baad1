"""A whole comparison: what `qkv compare` and `qkv.comparing.compare` do."""

import json
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.progress import BarColumn

from qkv.comparing import plan
from qkv.comparing.shared import Shared, Spec
from qkv.comparing.table import Entry, Table, shown
from qkv.comparing.workers import Worker
from qkv.config import Tree, merge
from qkv.decoding import Search
from qkv.errors import InputError
from qkv.evaluation import FIGURES, in_words
from qkv.files import alone, write_json, write_text
from qkv.look.charts import draw_points, draw_trade
from qkv.training.display import Display, duration
from qkv.training.run import check_out
from qkv.training.settings import task_of

LOOK = 0.1  # seconds between looks at the processes
STOP = signal.SIGINT if os.name == "posix" else signal.SIGTERM


@dataclass(frozen=True)
class Comparison:
    """What a comparison came to; the same table lies in `out` as table.md, table.json and table.png."""

    out: Path
    table: Table
    interrupted: bool = False

    @property
    def failed(self) -> int:
        """How many runs failed."""
        return sum(len(entry.failed) for entry in self.table.entries)


def compare(
    recipe: str | Path, *, vary: Sequence[str] = (), one_by_one: bool = False, seeds: int = 1,
    steps: int | None = None, epochs: float | None = None, minutes: float | None = None,
    beam: int = 5, alpha: float = 1.0, jobs: int = 1, skip_impossible: bool = False,
    out: str | Path = "comparison", quiet: bool = False,
) -> Comparison:  # fmt: skip
    """Train variations of a recipe for the same budget, each with several seeds, and put their figures in one table.

    >>> qkv.comparing.compare("recipe.toml", vary=["position=sinusoidal,learned", "model.n_heads=1,4"], seeds=3)

    The same call again goes on where it stopped, and runs nothing twice.
    """
    for name, number in (("seeds", seeds), ("jobs", jobs)):
        if number < 1:
            raise InputError(f"{name} is {number}, but at least 1 is needed; give 1 or more")
    Search(beam=beam, alpha=alpha)  # refuses what no search can do
    base, rows = plan.read_recipe(recipe)
    rows = plan.varied(vary, one_by_one) if vary else rows
    if not rows:
        raise InputError(
            f"there is nothing to compare: {recipe} has no [[vary]] rows; give --vary position=none,learned"
        )
    base = merge(base, {"training": budget(steps, epochs, minutes)})
    task = task_of(base, str(recipe))
    rows, impossible = plan.possible(base, rows, skip_impossible)
    out, display = Path(out), Display(quiet)
    check_out(out)
    with alone(out / "compare.lock", f"another qkv is comparing into {out}; wait for it, or give a new --out"):
        shared = Shared(base, out, display)
        given: Tree = {"beam": beam, "alpha": alpha}
        search = {name: given[name] for name in task.search}
        specs = {row.name: [shared.spec(row, seed, search) for seed in range(seeds)] for row in rows}
        entries = [Entry(row, left_out=plan.laid_over(base, row)[1]) for row in different(rows, specs, display)]
        table = Table(Path(recipe).stem, task, search, entries, impossible)
        return Runs(out, table, specs, jobs, display).go()


def budget(steps: int | None, epochs: float | None, minutes: float | None) -> Tree:
    """What is given stands in place of all the recipe's own limits, patience too: every row has the same."""
    given = {"steps": steps, "epochs": epochs, "minutes": minutes}
    if all(value is None for value in given.values()):
        return {}
    if not any(given.values()):
        raise InputError("a budget of 0 would never end a run; give --steps, --epochs or --minutes above 0")
    return {"steps": 0, "epochs": 0.0, "minutes": 0.0, "patience": 0} | {k: v for k, v in given.items() if v}


def different(rows: list[plan.Row], specs: dict[str, list[Spec]], display: Display) -> list[plan.Row]:
    """Rows without those whose settings are those of an earlier one."""
    first: dict[str, plan.Row] = {}
    for row in rows:
        same = first.setdefault(specs[row.name][0].digest, row)
        if same is not row:
            display.say(f"{row.name} is the same as {same.name}: it is run once")
    return list(first.values())


def read(path: Path) -> Tree:
    """What a process left there; nothing if it left none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class Runs:
    """The runs that are still to be done, `jobs` at a time, and the table, which is written anew after each."""

    def __init__(self, out: Path, table: Table, specs: dict[str, list[Spec]], jobs: int, display: Display) -> None:
        self.out, self.table, self.jobs, self.display, self.place = out, table, jobs, display, out / "runs"
        self.entries = {entry.row.name: entry for entry in table.entries}
        # The first seed of every row comes before the second of any, so that there is soon a table to look at.
        of_rows = [specs[name] for name in self.entries]
        self.todo = deque(spec for several in zip(*of_rows, strict=True) for spec in several if not self.finished(spec))
        self.running: list[Worker] = []
        self.total, self.done, self.began = len(self.todo), 0, time.monotonic()

    def go(self) -> Comparison:
        self.display.say(self.count())
        self.write()
        try:
            self.work()
        except KeyboardInterrupt:
            self.display.say(f"stopped, all saved; {self.count()}. The same command goes on from here")
            return Comparison(self.out, self.table, interrupted=True)
        try:
            self.draw()
        except InputError as error:
            self.display.say(f"no picture: {error}")
        return Comparison(self.out, self.table)

    def work(self) -> None:
        """Run all, each on one thread if there are several at a time; Ctrl-C lets those that run save themselves."""
        columns = (BarColumn(24), "{task.completed} of {task.total} runs", "{task.description}")
        with self.display.bar(*columns, total=self.total) as update:
            try:
                while self.todo or self.running:
                    while self.todo and len(self.running) < self.jobs:
                        spec = replace(self.todo.popleft(), threads=1 if self.jobs > 1 else 0)
                        self.running.append(Worker.start(spec, self.place / spec.folder))
                    time.sleep(LOOK)
                    for worker in [worker for worker in self.running if worker.process.poll() is not None]:
                        self.running.remove(worker)
                        self.done += 1
                        self.ended(worker.spec, worker.failure())
                    if update:
                        update(completed=self.done, description=self.line())
            finally:
                self.stop()

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

    def finished(self, spec: Spec) -> bool:
        """Is the result of this very spec there? Then it is taken; a folder of another one is refused."""
        entry, folder = self.entries[spec.row], self.place / spec.folder
        result, begun = (read(folder / name) for name in ("result.json", "spec.json"))
        if result and result["digest"] == spec.digest:
            entry.results.append(result)
            return True
        if begun and begun["digest"] != spec.digest:
            raise InputError(f"{folder} is of other settings or other data than are asked for now; give a new --out")
        entry.waiting += 1
        return False

    def ended(self, spec: Spec, failure: str) -> None:
        entry = self.entries[spec.row]
        entry.waiting -= 1
        if failure:
            entry.failed[spec.seed] = failure
            said = f"failed: {failure} (see {self.place / spec.folder / 'log.txt'})"
        else:
            result = read(self.place / spec.folder / "result.json")
            entry.results.append(result)
            names = ("loss", "bleu", "accuracy", "mean")
            said = in_words({name: result[name] for name in names if name in result})
        self.display.say(f"{spec.row}, seed {spec.seed}: {said}")
        self.write()

    # -- telling -------------------------------------------------------------------------------------------------

    def line(self) -> str:
        """Which runs are at hand and how far they are; how long it takes if what remains goes as what was done."""
        now = ", ".join(f"{w.spec.row} (seed {w.spec.seed}): {w.fraction:.0%}" for w in self.running)
        begun = sum(worker.began_at for worker in self.running)
        made = self.done + sum(worker.fraction for worker in self.running) - begun
        if made <= 0.02:
            return now
        left = (time.monotonic() - self.began) * (self.total - begun - made) / made
        return f"{now}; about {duration(left)} left"

    def count(self) -> str:
        done = sum(len(entry.results) for entry in self.table.entries)
        failed = sum(len(entry.failed) for entry in self.table.entries)
        total = done + failed + sum(entry.waiting for entry in self.table.entries)
        return f"{done} of {total} runs are done" + (f", {failed} failed" if failed else "")

    def write(self) -> None:
        write_text(self.out / "table.md", self.table.markdown())
        write_json(self.out / "table.json", self.table.tree())

    def draw(self) -> None:
        entries = [entry for entry in self.table.sorted() if entry.results]
        names = [entry.row.name for entry in entries]
        panels = {}
        for name in self.table.figures():
            known = shown(name)
            title = known.title + (f" ({known.after.strip()})" if known.after else "")
            panels[title] = [[value / known.unit for value in entry.values(name)] for entry in entries]
        draw_points(names, panels, self.out / "table.png")
        if {"bleu", "decoding_speed"} <= set(self.table.figures()):
            speed, score = FIGURES["decoding_speed"].title, FIGURES["bleu"].title
            draw_trade(names, {speed: panels[speed]}, {score: panels[score]}, self.out / "speed.png")
