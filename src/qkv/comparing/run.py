"""A whole comparison: what `qkv compare` and `qkv.comparing.compare` do."""

import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rich.progress import BarColumn

from qkv.comparing import plan, stages
from qkv.comparing.pace import Pace
from qkv.comparing.pictures import draw
from qkv.comparing.shared import Shared, Spec
from qkv.comparing.table import Entry, Table, combined
from qkv.comparing.workers import Worker
from qkv.config import Tree, merge
from qkv.decoding import Search
from qkv.display import Display, duration
from qkv.errors import InputError
from qkv.evaluation import in_words
from qkv.files import alone, read_json, write_json, write_text
from qkv.tasks import TASKS
from qkv.training.run import check_out
from qkv.training.settings import task_of

LOOK = 0.1  # seconds between looks at the processes
STOP = signal.SIGINT if os.name == "posix" else signal.SIGTERM
SAID = ("loss", "bleu", "accuracy", "f1", "mean")  # figures that are told when a run ends


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
    text: Sequence[str | Path] = (), beam: int = 5, alpha: float = 1.0, jobs: int = 1, skip_impossible: bool = False,
    out: str | Path = "comparison", quiet: bool = False,
) -> Comparison:  # fmt: skip
    """Train variations of a recipe for the same budget, each with several seeds, and put their figures in one table.

    >>> qkv.comparing.compare("recipe.toml", vary=["position=sinusoidal,learned", "model.n_heads=1,4"], seeds=3)
    >>> qkv.comparing.compare("papers", minutes=10, seeds=3)

    The same call again goes on where it stopped, and runs nothing twice.
    """
    for name, number in (("seeds", seeds), ("jobs", jobs)):
        if number < 1:
            raise InputError(f"{name} is {number}, but at least 1 is needed; give 1 or more")
    Search(beam=beam, alpha=alpha)  # refuses what no search can do
    base, rows = plan.read_recipe(recipe)
    base = stages.reading(base, text, str(recipe))
    rows = plan.varied(vary, one_by_one) if vary else rows
    if not rows:
        raise InputError(
            f"there is nothing to compare: {recipe} has no [[vary]] rows; give --vary position=none,learned"
        )
    base, rows = stages.budgeted(base, rows, budget(steps, epochs, minutes))
    stages.check(base, rows, str(recipe))
    rows, impossible = plan.possible(base, rows, skip_impossible)
    out, display = Path(out), Display(quiet)
    check_out(out)
    with alone(out / "compare.lock", f"another qkv is comparing into {out}; wait for it, or give a new --out"):
        shared, given = Shared(base, out, display), {"beam": beam, "alpha": alpha}
        parts = plan.parts(base)
        specs = {row.name: [[shared.spec(row, seed, given, part) for part in parts] for seed in range(seeds)]
                 for row in rows}  # fmt: skip
        entries = [Entry(row, left_out=plan.laid_over(base, row)[1]) for row in different(rows, specs, display)]
        tasks = {part: task_of(merge(base, base.get("sets", {}).get(part, {})), str(recipe)) for part in parts}
        task = TASKS["joint"] if base.get("sets") else tasks[""]
        table = Table(Path(recipe).stem, task, {name: given[name] for name in task.search}, entries, impossible)
        scores = {part: kind.score for part, kind in tasks.items()}
        return Runs(out, table, in_order(specs, entries, shared), scores, jobs, display).go()


def in_order(specs: dict[str, list[list[Spec]]], entries: Sequence[Entry], shared: Shared) -> list[Spec]:
    """All runs, each behind the stages that it needs. The first seed of every row comes before the second of any, so
    that there is soon a table to look at."""
    before = {spec.folder: spec for spec, _ in shared.stages.values()}
    ordered: dict[str, Spec] = {}

    def add(spec: Spec) -> None:
        if spec.before:
            add(before[spec.before])
        ordered.setdefault(spec.folder, spec)

    of_rows = [specs[entry.row.name] for entry in entries]
    for several in zip(*of_rows, strict=True):
        for spec in chain.from_iterable(several):
            add(spec)
    return [*ordered.values()]


def budget(steps: int | None, epochs: float | None, minutes: float | None) -> Tree:
    """What is given stands in place of all the recipe's own limits, patience too: every row has the same."""
    given = {"steps": steps, "epochs": epochs, "minutes": minutes}
    if all(value is None for value in given.values()):
        return {}
    if not any(given.values()):
        raise InputError("a budget of 0 would never end a run; give --steps, --epochs or --minutes above 0")
    return {"steps": 0, "epochs": 0.0, "minutes": 0.0, "patience": 0} | {k: v for k, v in given.items() if v}


def different(rows: list[plan.Row], specs: dict[str, list[list[Spec]]], display: Display) -> list[plan.Row]:
    """Rows without those whose settings are those of an earlier one."""
    first: dict[tuple[str, ...], plan.Row] = {}
    for row in rows:
        same = first.setdefault(tuple(spec.digest for spec in specs[row.name][0]), row)
        if same is not row:
            display.say(f"{row.name} is the same as {same.name}: it is run once")
    return list(first.values())


def read(path: Path) -> Tree:
    """What a process left there; nothing if it left none."""
    return read_json(path) if path.exists() else {}


def named(spec: Spec) -> str:
    """A run for people: "BERT on sst2, seed 1"."""
    return f"{'stage ' * spec.is_stage}{spec.row}{f' on {spec.part}' if spec.part else ''}, seed {spec.seed}"


class Runs:
    """The runs that are still to be done, `jobs` at a time, and the table, which is written anew after each."""

    def __init__(
        self, out: Path, table: Table, specs: list[Spec], scores: dict[str, str], jobs: int, display: Display
    ) -> None:
        self.out, self.table, self.jobs, self.display = out, table, jobs, display
        self.entries = {entry.row.name: entry for entry in table.entries}
        self.scores = scores  # the figure of each set
        self.specs = {spec.folder: spec for spec in specs}
        self.results: dict[str, Tree] = {}  # by folder; and why others failed
        self.failures: dict[str, str] = {}
        self.pace = Pace(jobs)
        self.todo = deque(spec for spec in specs if not self.finished(spec))
        self.running: list[Worker] = []
        self.total, self.done, self.told = len(self.todo), 0, False

    def go(self) -> Comparison:
        self.display.say(self.count())
        self.write()
        try:
            self.work()
        except KeyboardInterrupt:
            self.display.say(f"stopped, all saved; {self.count()}. The same command goes on from here")
            return Comparison(self.out, self.table, interrupted=True)
        try:
            draw(self.table, self.out)
        except InputError as error:
            self.display.say(f"no picture: {error}")
        return Comparison(self.out, self.table)

    def work(self) -> None:
        """Run all, each on one thread if there are several at a time; Ctrl-C lets those that run save themselves."""
        columns = (BarColumn(24), "{task.completed} of {task.total} runs", "{task.description}")
        with self.display.bar(*columns, total=self.total) as update:
            try:
                while self.todo or self.running:
                    while len(self.running) < self.jobs and (spec := self.next()):
                        spec = replace(spec, threads=1 if self.jobs > 1 else 0)
                        self.running.append(Worker.start(spec, self.out / spec.folder))
                    time.sleep(LOOK)
                    for worker in [worker for worker in self.running if worker.process.poll() is not None]:
                        self.running.remove(worker)
                        self.ended(worker.spec, worker.failure(), worker.whole)
                    if not self.told and (left := self.left()):
                        self.told = True
                        self.display.say(f"at the pace of the first steps, all of it takes about {left}")
                    if update:
                        update(completed=self.done, description=self.line())
            finally:
                self.stop()

    def next(self) -> Spec | None:
        """The first run that has all it begins with; one whose stage failed fails with it."""
        for spec in list(self.todo):
            if spec.before in self.failures:
                self.todo.remove(spec)
                self.ended(spec, f"the stage {self.specs[spec.before].row} before it failed")
            elif not spec.before or spec.before in self.results:
                self.todo.remove(spec)
                return spec
        return None

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
        folder = self.out / spec.folder
        result, begun = (read(folder / name) for name in ("result.json", "spec.json"))
        if not spec.is_stage:
            self.entries[spec.row].waiting += 1
        if result and result["digest"] == spec.digest:
            self.pace.add(spec, result["minutes"] * 60)
            self.take(spec, result)
            return True
        if begun and begun["digest"] != spec.digest:
            raise InputError(f"{folder} is of other settings or other data than are asked for now; give a new --out")
        return False

    def take(self, spec: Spec, result: Tree) -> None:
        """A result goes into the table; where there are several sets, once there are those of all."""
        self.results[spec.folder] = result
        if spec.is_stage:
            return
        entry = self.entries[spec.row]
        entry.waiting -= 1
        entry.of_sets.setdefault(spec.seed, {})[spec.part] = {**result, **self.beforehand(spec)}
        several = entry.of_sets[spec.seed]
        if len(several) == len(self.scores):
            entry.results.append(several[""] if "" in several else combined(several, self.scores))

    def beforehand(self, spec: Spec) -> Tree:
        """What the stages before a run took."""
        found, name = {"stage_steps": 0, "stage_minutes": 0.0}, spec.before
        while name:
            found["stage_steps"] += self.results[name]["steps"]
            found["stage_minutes"] += self.results[name]["minutes"]
            name = self.specs[name].before
        return found if spec.before else {}

    def ended(self, spec: Spec, failure: str, seconds: float = 0.0) -> None:
        self.done += 1
        if failure:
            self.failures[spec.folder] = failure
            if not spec.is_stage:
                self.entries[spec.row].waiting -= 1
                self.entries[spec.row].failed[spec.seed] = failure
            said = f"failed: {failure} (see {self.out / spec.folder / 'log.txt'})"
        else:
            result = read(self.out / spec.folder / "result.json")
            self.pace.add(spec, seconds)
            self.take(spec, result)
            said = in_words({name: result[name] for name in SAID if name in result})
        left = f"; about {left} left" if (left := self.left()) else ""
        self.display.say(f"{named(spec)}: {said}{left}")
        self.write()

    # -- telling -------------------------------------------------------------------------------------------------

    def left(self) -> str:
        """How long it takes if what remains goes as what was done; nothing while nobody knows."""
        seconds = self.pace.left(self.running, self.todo)
        return duration(seconds) if seconds else ""

    def line(self) -> str:
        """Which runs are at hand and how far they are."""
        now = ", ".join(f"{named(worker.spec)}: {worker.fraction:.0%}" for worker in self.running)
        return f"{now}; about {left} left" if (left := self.left()) else now

    def count(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"{len(self.results)} of {len(self.specs)} runs are done{failed}"

    def write(self) -> None:
        write_text(self.out / "table.md", self.table.markdown())
        write_json(self.out / "table.json", self.table.tree())
