"""benchmarks/simulate.py: its formulae by worked numbers."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Any:
    import importlib

    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module("simulate")


def test_computing_is_six_operations_for_each_weight_and_token(simulate: Any) -> None:
    job = simulate.Job("one", parameters=1e9, d_model=1, reductions=1, tokens=1000)
    assert simulate.compute(job, simulate.Cluster(operations=6e12)) == pytest.approx(1.0)


def test_a_ring_sends_all_but_one_share_twice(simulate: Any) -> None:
    """Four members, 12 bytes: each sends 3 shares of 3 bytes to be summed, and 3 more to be spread: 18 bytes."""
    assert simulate.ring(12, 4, bandwidth=1) == 18
    assert simulate.ring(12, 4, bandwidth=1, latency=0.5) == 18 + 6 * 0.5
    assert simulate.ring(12, 1, bandwidth=1, latency=0.5) == 0


def test_hosts_talk_by_their_slow_wire(simulate: Any) -> None:
    cluster = simulate.Cluster(in_host=8, inside=10.0, network=1.0, latency=0.0)
    assert simulate.all_reduce(80, 8, cluster) == pytest.approx(2 * 7 / 8 * 8)  # one host: no slow wire
    assert simulate.all_reduce(80, 16, cluster) == pytest.approx(14 + 2 * 1 / 2 * 80)
    assert simulate.sharded(80, 16, cluster) == pytest.approx(1.5 * 94)  # 3 in place of 2


def test_talk_that_is_hidden_costs_nothing(simulate: Any) -> None:
    assert simulate.efficiency(3.0, 1.0) == 0.75
    assert simulate.efficiency(3.0, 1.0, hidden=2.0) == 1.0
    assert simulate.efficiency(3.0, 3.0, hidden=2.0) == 0.75


def test_at_the_critical_batch_half_of_the_work_teaches(simulate: Any) -> None:
    job = simulate.Job("one", 1, 1, 1, tokens=1, critical=1e6)
    assert simulate.learning(1, job) == 1.0
    assert simulate.learning(10**6, job) == pytest.approx(0.5, rel=1e-5)
    most = [gpus * simulate.learning(gpus, job) for gpus in (10**7, 10**9)]
    assert all(speed < 1e6 + 1 for speed in most)  # however many GPUs, a goal is not reached sooner


def test_the_papers_models_and_what_they_sum(simulate: Any) -> None:
    base, big = map(simulate.Job.of, ("base", "big"))
    assert round(base.parameters / 1e6) == 63  # 65 in Table 3, by a larger vocabulary
    assert round(big.parameters / 1e6) == 214  # 213 there
    assert (base.reductions, base.d_model) == (30, 512)
    cluster = simulate.Cluster(in_host=2, inside=1.0)
    assert simulate.tensor_parallel(base, cluster) == 60 * 2 * 4096 * 512  # 30 forwards, 30 backwards


def test_rare_averages_are_paid_by_many_steps(simulate: Any) -> None:
    job, cluster = simulate.Job.of("base"), simulate.Cluster()
    a_sum = simulate.ring(4 * job.parameters, 8, 125e6, 0.05)
    every = round(a_sum / simulate.compute(job, cluster))
    assert simulate.rare(job, cluster, every, 125e6) == pytest.approx(0.5, abs=0.01)
