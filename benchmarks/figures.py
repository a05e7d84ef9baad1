"""How every benchmark takes its figures and shows them: by turns, as medians with their spread, in Markdown tables."""

import json
import os
import resource
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

UNIT = 2**20 if sys.platform == "darwin" else 2**10  # getrusage counts bytes on macOS, KiB on Linux; in megabytes

HELD = ("CT2_FORCE_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
CPUS = ("avx2",)  # what --cpu may hold all to

Seconds = dict[str, list[float]]  # of each contestant, one for each round


def by_turns(contestants: Mapping[str, Callable[[], object]], rounds: int) -> Seconds:
    """Each runs once in each round, so that whatever else the machine does slows all; who begins changes."""
    order, seconds = list(contestants), {name: list[float]() for name in contestants}
    for number in range(rounds):
        first = number % len(order)
        for name in order[first:] + order[:first]:
            began = time.perf_counter()
            contestants[name]()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def times_as_fast(own: Sequence[float], other: Sequence[float]) -> float:
    """The median over rounds of the other's seconds by one's own: above 1, one is faster."""
    return median(theirs / ours for ours, theirs in zip(own, other, strict=True))


def spread(values: Sequence[float]) -> float:
    """Half the way from the lowest to the highest round, as a share of the median."""
    return (max(values) - min(values)) / 2 / median(values)


def best(seconds: Seconds, names: Sequence[str]) -> str:
    """The one of these that is fastest by its median."""
    return min(names, key=lambda name: median(seconds[name]))


def megabytes(who: int = resource.RUSAGE_SELF) -> float:
    """The most memory that this process has ever held, or the largest of those that it started and that have ended."""
    return resource.getrusage(who).ru_maxrss / UNIT


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is aligned in a terminal too; numbers stand at the right."""
    widths = [max(3, *(len(row[i]) for row in [head, *rows])) for i in range(len(head))]
    right = [all(row[i][:1].isdigit() or row[i] in ("", "-") for row in rows) for i in range(len(head))]
    marks = ["-" * (width - 1) + (":" if at_right else "-") for width, at_right in zip(widths, right, strict=True)]
    lines = []
    for row in [head, marks, *rows]:
        cells = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def hold_to(cpu: str) -> None:
    """Nobody may use newer instructions than these: our engine, CTranslate2, torch, and the libraries that multiply for
    them (oneDNN, MKL). Some ask when they are imported, so that the program begins anew."""
    if cpu and os.environ.get("QKV_CPU") != cpu:
        os.environ |= {"QKV_CPU": cpu, "ATEN_CPU_CAPABILITY": cpu, **{name: cpu.upper() for name in HELD}}
        os.execv(sys.executable, [sys.executable, *sys.argv])


def arguments(parser: ArgumentParser, *, rounds: int, threads: int, use: str) -> Namespace:
    """What a benchmark is asked: the flags that all have, beside its own."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=threads, help=use)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def show(found: Any, tell: Callable[[Any], None], *, as_json: bool) -> None:
    """What a benchmark has found: as one JSON object, or as it tells it to people."""
    if as_json:
        print(json.dumps(found))
    else:
        tell(found)
