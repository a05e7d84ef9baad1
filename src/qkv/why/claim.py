"""The frame of `qkv why`: a claim in words, what was measured of it, and the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

Cell = str | int | float
Row = tuple[Cell, ...]
Verdict = Literal["true", "true with a correction", "wrong"]
Picture = Callable[[Path], Path]


@dataclass(frozen=True)
class Measured:
    """The numbers that were measured, and what they say of the claim."""

    columns: tuple[str, ...]
    rows: list[Row]
    verdict: Verdict
    why: str  # what the numbers show; of a claim that is not simply true, what is true instead
    holds: bool  # whether the effect has the sign that the verdict says
    picture: Picture | None = None
    digits: int = 4  # significant digits of the printed numbers

    def shown(self) -> list[list[str]]:
        """The rows as they are printed."""
        return [[self.show(cell) for cell in row] for row in self.rows]

    def show(self, cell: Cell) -> str:
        if isinstance(cell, str):
            return cell
        if isinstance(cell, int) or (abs(cell) >= 10**self.digits and cell == cell and abs(cell) != float("inf")):
            return f"{cell:,.0f}"
        return f"{cell:.{self.digits}g}"

    def to_tree(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"rows": rows, "verdict": self.verdict, "why": self.why, "holds": self.holds}


@dataclass(frozen=True)
class Claim:
    """One statement of the lecture notes, in our words, and the function that measures it."""

    number: str
    name: str
    words: str
    measure: Callable[[], Measured]

    def run(self) -> Measured:
        """Measure on one thread and from a fixed seed; the caller's threads and random numbers stay as they were."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                return self.measure()
        finally:
            torch.set_num_threads(threads)
