"""Schedules: points that can be worked out by hand, no jump at the end of the warm-up, and step 0."""

import math
from collections.abc import Callable
from inspect import signature

import pytest

from kit import refused
from qkv.config import build
from qkv.training import SCHEDULES

# (schedule, step, progress, value): worked out by hand from the formula in each docstring.
POINTS = [
    ("noam", 1, 0.0, 1 / math.sqrt(512 * 4000**3)),
    ("noam", 4000, 0.0, 1 / math.sqrt(512 * 4000)),
    ("noam(d_model=1024)", 4000, 0.0, 1 / math.sqrt(1024 * 4000)),
    ("noam", 100_000, 0.0, 1 / math.sqrt(512 * 100_000)),
    ("inverse_square_root", 1, 0.0, 1 / 4000),
    ("inverse_square_root", 2000, 0.0, 0.5),
    ("inverse_square_root", 4000, 0.0, 1.0),
    ("inverse_square_root", 16_000, 0.0, 0.5),
    ("linear(warmup=10)", 5, 0.0, 0.5),
    ("linear(warmup=10)", 5, 0.25, 0.375),
    ("linear(warmup=10)", 10, 0.0, 1.0),
    ("linear(warmup=10)", 50, 0.25, 0.75),
    ("linear(warmup=10, floor=0.1)", 99, 1.0, 0.1),
    ("cosine(warmup=10)", 5, 0.0, 0.5),
    ("cosine(warmup=10)", 20, 1 / 3, 0.75),
    ("cosine(warmup=10)", 50, 0.5, 0.5),
    ("cosine(warmup=10, floor=0.05)", 99, 1.0, 0.05),
    ("polynomial(warmup=10)", 5, 0.0, 0.5),
    ("polynomial(warmup=10)", 50, 0.25, 0.75),
    ("polynomial(warmup=10, power=2.0)", 50, 0.5, 0.25),
    ("polynomial(warmup=10, power=2.0, floor=0.2)", 50, 0.5, 0.2 + 0.8 / 4),
    ("polynomial(warmup=10, floor=0.1)", 99, 1.5, 0.1),
    ("constant(warmup=4)", 1, 0.0, 0.25),
    ("constant(warmup=4)", 3, 0.5, 0.75),
    ("constant(warmup=4)", 4, 0.5, 1.0),
    ("constant(warmup=4)", 10**6, 1.0, 1.0),
    ("slanted_triangle", 1, 0.0, 1 / 32),
    ("slanted_triangle", 1, 0.05, (1 + 31 / 2) / 32),
    ("slanted_triangle", 1, 0.1, 1.0),
    ("slanted_triangle", 1, 0.55, (1 + 31 / 2) / 32),
    ("slanted_triangle(cut=0.5, ratio=4.0)", 1, 0.75, (1 + 3 / 2) / 4),
    ("slanted_triangle", 1, 1.5, 1 / 32),
]


@pytest.mark.parametrize(("spec", "step", "progress", "value"), POINTS)
def test_the_closed_form(spec: str, step: int, progress: float, value: float) -> None:
    assert build(SCHEDULES, spec)(step, progress) == pytest.approx(value, rel=1e-9)


def test_the_peak_of_the_paper() -> None:
    """Eq. 3 at step 4000 for the two models of the paper: 6.987...e-4 (d_model 512) and 4.941...e-4 (1024)."""
    assert f"{SCHEDULES['noam']()(4000, 0.0) * 1e7:.2f}" == "6987.71"
    assert f"{SCHEDULES['noam'](d_model=1024)(4000, 0.0) * 1e7:.2f}" == "4941.06"


@pytest.mark.parametrize("name", SCHEDULES)
def test_four_points_of_each_are_known(name: str) -> None:
    assert sum(spec.split("(")[0] == name for spec, *_ in POINTS) >= 4


@pytest.fixture(params=sorted(name for name, kind in SCHEDULES.items() if "warmup" in signature(kind).parameters))
def schedule(request: pytest.FixtureRequest) -> Callable[..., Callable[[int, float], float]]:
    return SCHEDULES[request.param]


def test_nothing_jumps_where_the_warm_up_ends(schedule: Callable[..., Callable[[int, float], float]]) -> None:
    factor = schedule(warmup=1000)
    before, at, after = (factor(step, 0.0) for step in (999, 1000, 1001))
    assert before == pytest.approx(at, rel=2e-3)
    assert after == pytest.approx(at, rel=2e-3)
    assert before < at >= after


def test_it_rises_to_the_end_of_the_warm_up_and_never_after(
    schedule: Callable[..., Callable[[int, float], float]],
) -> None:
    values = [schedule(warmup=20)(step, 0.0) for step in range(1, 60)]
    assert values[:20] == sorted(values[:20])
    assert values[19:] == sorted(values[19:], reverse=True)


def test_step_0_is_step_1(schedule: Callable[..., Callable[[int, float], float]]) -> None:
    assert schedule(warmup=100)(0, 0.0) == schedule(warmup=100)(1, 0.0) > 0


def test_no_warm_up_begins_at_the_top(schedule: Callable[..., Callable[[int, float], float]]) -> None:
    values = [schedule(warmup=0)(step, 0.0) for step in range(1, 6)]
    assert values[0] == max(values) == schedule(warmup=1)(1, 0.0)


def test_progress_beyond_the_end_stays_at_the_floor() -> None:
    for name in ("linear", "cosine"):
        assert SCHEDULES[name](floor=0.2)(9999, 1.5) == 0.2


@refused(
    {
        "cosin": "unknown name 'cosin'; did you mean 'cosine'",
        "cosine(warm=3)": "'cosine' has no option 'warm'; did you mean 'warmup'",
        "cosine(warmup='long')": r"cosine\(warmup='long'\): Input should be a valid integer",
        "cosine(400, 0.1, 7)": "values without a key: 'cosine' takes only warmup, floor, so 3 are too many",
        "slanted_triangle(cut=1.0)": "slanted_triangle needs a cut between 0 and 1, a ratio of 1 or more, not 1.0",
    },
    "spec",
)
def test_a_wrong_name_is_refused(spec: str) -> None:
    build(SCHEDULES, spec)
