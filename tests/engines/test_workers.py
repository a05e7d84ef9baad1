"""Processes beside this one: all results in order, whatever happens to a worker; and they end when not needed."""

import gc
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from kit import tokenizer
from qkv import record_attention
from qkv.decoding import Search, Searcher, Translator
from qkv.decoding.searcher import CELLS, Searched, Wanted, by_length
from qkv.engines.lean import Lean
from qkv.engines.workers import Processes, can_fork
from qkv.models import Transformer

pytestmark = pytest.mark.skipif(not can_fork(), reason="workers are processes on Linux only")


def squared_by(number: int) -> Any:
    """Which process did it is part of the result."""
    if number < 0:
        raise ValueError(f"{number} is below 0")
    return [number * number, os.getpid()]


def ended(number: int) -> bool:
    """Whether a process is gone, or only waits to be counted."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_results_come_in_order_and_from_others() -> None:
    workers = Processes(squared_by, 3)
    found = workers(range(50))
    assert [value for value, _ in found] == [number * number for number in range(50)]
    assert {who for _, who in found} <= set(workers.ids)
    assert os.getpid() not in workers.ids
    workers.close()


def test_work_of_a_worker_that_was_killed_is_done_here() -> None:
    workers = Processes(squared_by, 2)
    workers(range(4))
    os.kill(workers.ids[0], signal.SIGKILL)
    found = workers(range(30))
    assert [value for value, _ in found] == [number * number for number in range(30)]
    assert os.getpid() in {who for _, who in found}
    workers.close()


def test_an_error_shows_itself_here_and_the_worker_goes_on() -> None:
    workers = Processes(squared_by, 1)
    with pytest.raises(ValueError, match="-3 is below 0"):
        workers([1, -3, 2])
    assert workers([5]) == [[25, workers.ids[0]]]
    workers.close()


def test_workers_end_with_the_one_they_work_for() -> None:
    workers = Processes(squared_by, 2)
    ids = list(workers.ids)
    workers([1])
    assert not any(ended(number) for number in ids)
    del workers
    gc.collect()
    assert all(ended(number) for number in ids)


def test_workers_end_with_a_process_that_was_killed() -> None:
    """Nobody tells them: they see that their socket has no other end, although each was copied with its siblings'."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        workers = Processes(squared_by, 3)
        os.write(writing, " ".join(map(str, workers.ids)).encode())
        signal.pause()
    ids = [int(number) for number in os.read(reading, 1000).split()]
    assert len(ids) == 3
    assert not any(ended(number) for number in ids)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 20
    while not all(ended(number) for number in ids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(ended(number) for number in ids)


@pytest.fixture
def translator(model: Transformer) -> Translator:
    return Translator(model, tokenizer(), {}, Lean(model), workers=3)


def search(searcher: Searcher, sources: list[list[int]], how: Search) -> list[Searched]:
    return searcher.search(sources, [len(row) + 50 for row in sources], how)


@pytest.mark.parametrize("how", [Search(beam=1), Search(beam=4, n_best=3), Search(sampling=True, seed=5)], ids=str)
def test_what_workers_find_is_what_is_found_here(translator: Translator, sources: list[list[int]], how: Search) -> None:
    """Tokens, scores to the last bit, ends and loops."""
    many, searcher = [row[:-1] for row in sources] * 4, translator
    batches = by_length([len(row) + 1 for row in many], CELLS // how.beam, searcher.workers)
    assert len(batches) > 3
    found = search(searcher, many, how)
    assert isinstance(searcher.open_workers(), Processes)
    for batch in batches:
        expected = searcher.decode([Wanted(many[i], len(many[i]) + 50, (i,)) for i in batch], how)
        assert [found[i] for i in batch] == expected


def test_attention_is_recorded_where_several_batches_are_decoded(
    translator: Translator, sources: list[list[int]]
) -> None:
    """Hooks are in this process, so the model is searched with here, whatever workers there are."""
    many = [row[:-1] for row in sources] * 4
    expected = search(translator, many, Search(beam=1))
    with record_attention(translator) as maps:
        found = search(translator, many, Search(beam=1))
    assert [one.hypotheses[0].tokens for one in found] == [one.hypotheses[0].tokens for one in expected]
    assert maps


def test_no_process_is_begun_that_nobody_asked_for(model: Transformer, sources: list[list[int]]) -> None:
    searcher, many = Searcher(Lean(model)), [row[:-1] for row in sources] * 40
    assert len(by_length([len(row) + 1 for row in many], CELLS)) > 1
    search(searcher, many, Search(beam=1))
    assert searcher.opened is None
