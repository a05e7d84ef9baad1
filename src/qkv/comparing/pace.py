"""How long the runs of a comparison take, by those that are done and the first steps of those that run."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from statistics import fmean
from typing import Protocol

from qkv.comparing.plan import LIMITS
from qkv.comparing.shared import Spec


class Running(Protocol):
    """A run that is at hand: what it is, how much of it is done, and the seconds of all of it at its own pace."""

    spec: Spec

    @property
    def fraction(self) -> float: ...

    @property
    def whole(self) -> float: ...


class Pace:
    """Seconds for a step, an epoch or a minute of the budget: of the same row, else of its kind: of all stages, or of
    all runs on the same set."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self.seen: dict[Hashable, list[float]] = defaultdict(list)

    def add(self, spec: Spec, seconds: float) -> None:
        for kind in kinds(spec):
            self.seen[kind].append(seconds / size(spec))

    def left(self, running: Iterable[Running], todo: Iterable[Spec]) -> float:
        """Seconds until all is done; 0 while the pace of some kind is not known."""
        now, running = Pace(), list(running)
        now.seen.update({kind: list(several) for kind, several in self.seen.items()})
        for run in running:
            if run.whole:
                now.add(run.spec, run.whole)
        here = [(run.whole or now.expected(run.spec)) * (1 - run.fraction) for run in running]
        there = [now.expected(spec) for spec in todo]
        return (sum(here) + sum(there)) / self.jobs if all(there) and any((*here, *there)) else 0.0

    def expected(self, spec: Spec) -> float:
        """Seconds of a whole run; 0 if nobody knows."""
        for kind in kinds(spec):
            if kind in self.seen:
                return fmean(self.seen[kind]) * size(spec)
        return 60 * size(spec) if unit(spec) == "minutes" else 0.0


def kinds(spec: Spec) -> list[Hashable]:
    """What a run is like, the nearest first; only with the same unit of the budget."""
    return [(spec.row, spec.part, spec.is_stage, unit(spec)), (spec.part, spec.is_stage, unit(spec))]


def unit(spec: Spec) -> str:
    return next((name for name in LIMITS if spec.settings.get("training", {}).get(name)), "")


def size(spec: Spec) -> float:
    return float(spec.settings["training"][unit(spec)]) if unit(spec) else 1.0
