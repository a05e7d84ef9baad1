"""The queue: together as alone, fair, bounded, and nobody fails for another's sake."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kit import refused
from qkv import InputError, Translated, Translator
from qkv.serving import Limits, Queue, QueuedTranslator
from qkv.serving.limits import Refusal
from qkv.serving.metrics import Metrics
from qkv.serving.queue import PIECES, WRITERS, Call, Job, Writing
from qkv.serving.queued import CHUNK

SOON = 30.0  # seconds


class Watched:
    """A real translator that notes its batches, and waits before each until the gate is open."""

    def __init__(self, translator: Translator) -> None:
        self.own, self.batches, self.gate = translator, list[list[str]](), threading.Event()
        self.about, self.tokenizer, self.longest = translator.about, translator.tokenizer, translator.longest

    def translate(self, texts: list[str], **how: Any) -> list[Translated]:
        self.batches.append(list(texts))
        assert self.gate.wait(SOON)
        if "poison" in texts:
            raise ValueError("poison")
        return self.own.translate(texts, **how)


@pytest.fixture
def watched(translator: Translator) -> Watched:
    return Watched(translator)


@pytest.fixture
def queue(watched: Watched) -> Iterator[Queue]:
    queue = Queue(lambda: watched, Limits(queue=200), Metrics())
    yield queue
    queue.close()


def queued(queue: Queue, client: str = "a", seconds: float = SOON) -> QueuedTranslator:
    return QueuedTranslator(queue, client, time.monotonic() + seconds)


def job(watched: Watched, texts: list[str], client: str) -> Job:
    return Job(work=watched.translate, items=texts, client=client)


def until(condition: Any) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_many_clients_share_batches_and_get_what_they_would_get_alone(
    translator: Translator, watched: Watched, queue: Queue, sentences: list[str]
) -> None:
    """Hypotheses and scores, not only the best text; in whatever batch they were."""
    alone = [translator.translate(text, n_best=3) for text in sentences]
    assert len({one.text for one in alone}) > 30, "a model that says the same of everything proves nothing"
    with ThreadPoolExecutor(16) as threads:
        answers = [threads.submit(queued(queue, str(i % 7)).translate, [text], n_best=3)
                   for i, text in enumerate(sentences)]  # fmt: skip
        until(lambda: watched.batches)
        watched.gate.set()
        together = [answer.result(SOON)[0] for answer in answers]
    assert max(map(len, watched.batches)) > 5
    assert sum(map(len, watched.batches)) == len(sentences)
    for one, other in zip(alone, together, strict=True):
        assert [s.text for s in one.alternatives] == [s.text for s in other.alternatives]
        assert other.score == pytest.approx(one.score, abs=1e-4)


def test_a_long_document_lets_a_short_text_pass(
    translator: Translator, watched: Watched, queue: Queue, sentences: list[str]
) -> None:
    """It stands in the queue a chunk at a time, and comes back whole and in its order."""
    with ThreadPoolExecutor(2) as threads:
        long = threads.submit(queued(queue, "a").translate, sentences * 2)
        until(lambda: watched.batches)
        short = threads.submit(queued(queue, "b").translate, ["dog."])
        until(lambda: any(ask.client == "b" for ask in queue.asks))
        watched.gate.set()
        assert short.result(SOON)
        assert "dog." in watched.batches[1]
        assert [line.text for line in long.result(SOON)] == [line.text for line in translator.translate(sentences)] * 2
    assert max(map(len, watched.batches)) <= CHUNK + 1


def test_a_turn_takes_from_everybody(watched: Watched, queue: Queue) -> None:
    """The first in the queue could fill several turns alone; the last is in the next one all the same."""
    long = ["dog and cat and tree and boat and snow and child and house."] * 90  # 1,300 tokens
    some = [("first", ["dog."]), ("many", long), ("few", ["dog."])]
    jobs = [job(watched, texts, client) for client, texts in some]
    queue.put(jobs[0])
    until(lambda: watched.batches)
    for one in jobs[1:]:
        queue.put(one)
    watched.gate.set()
    assert [len(one.answer.result(SOON)) for one in jobs] == [1, 90, 1]
    assert "dog." in watched.batches[1]
    assert len(watched.batches) > 2


def test_one_search_at_a_time_and_in_turn(watched: Watched, queue: Queue) -> None:
    """Texts that are to be searched in different ways never share a batch, and both come to their turn."""
    watched.gate.set()
    with ThreadPoolExecutor(8) as threads:
        wide = [threads.submit(queued(queue).translate, ["dog cat."], beam=4, n_best=4) for _ in range(4)]
        narrow = [threads.submit(queued(queue).translate, ["dog cat."], beam=1) for _ in range(4)]
        assert {len(one.result(SOON)[0].alternatives) for one in wide} == {4}
        assert {len(one.result(SOON)[0].alternatives) for one in narrow} == {1}


def test_a_full_queue_refuses_and_says_when_to_come_back(watched: Watched, queue: Queue) -> None:
    def stand(client: str, count: int) -> Job:
        one = job(watched, ["dog."] * count, client)
        queue.put(one)
        return one

    jobs = [stand("first", 1)]
    until(lambda: watched.batches)
    jobs += [stand("greedy", 60), stand("greedy", 40)]
    with pytest.raises(Refusal, match="Slowdown: 100 of your sentences") as refused:
        stand("greedy", 1)
    assert (refused.value.status, refused.value.retry_after > 0) == (429, True)
    jobs += [stand("b", 99), stand("c", 1)]
    with pytest.raises(Refusal, match="200 sentences are waiting") as refused:
        stand("d", 1)
    assert (refused.value.status, refused.value.retry_after > 0) == (503, True)
    watched.gate.set()
    assert [len(one.answer.result(SOON)) for one in jobs] == [1, 60, 40, 99, 1]


def test_nobody_fails_because_of_another(watched: Watched, queue: Queue) -> None:
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(queued(queue).translate, ["dog."])
        until(lambda: watched.batches)
        good = [threads.submit(queued(queue).translate, [text]) for text in ("cat.", "snow.")]
        bad = threads.submit(queued(queue).translate, ["poison"])
        until(lambda: len(queue.asks) == 3)
        watched.gate.set()
        assert [one.result(SOON)[0].text for one in (first, *good)] == ["Hund.", "Katze.", "Schnee."]
        with pytest.raises(ValueError, match="poison"):
            bad.result(SOON)


def test_who_waits_too_long_is_told_and_leaves_the_queue(watched: Watched, queue: Queue) -> None:
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(queued(queue).translate, ["dog."])
        until(lambda: watched.batches)
        with pytest.raises(Refusal, match="longer than the server allows") as refused:
            queued(queue, seconds=0.01).translate(["cat."])
        assert refused.value.status == 503
        watched.gate.set()
        assert first.result(SOON)
        assert queued(queue).translate(["snow."])[0].text == "Schnee."
    assert ["cat."] not in watched.batches


def test_closing_finishes_what_waits_and_takes_no_more(watched: Watched, sentences: list[str]) -> None:
    queue = Queue(lambda: watched, Limits(), Metrics())
    fifty = job(watched, sentences[:50], "a")
    queue.put(fifty)
    closing = threading.Thread(target=queue.close)
    closing.start()
    until(lambda: queue.closed)
    with pytest.raises(Refusal, match="stopping") as refused:
        queued(queue).translate(["dog."])
    assert refused.value.status == 503
    watched.gate.set()
    closing.join(SOON)
    assert len(fifty.answer.result(0)) == 50
    assert not queue.thread.is_alive()


def test_what_needs_the_models_for_itself_runs_between_batches(watched: Watched, queue: Queue) -> None:
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(queued(queue).translate, ["dog."])
        until(lambda: watched.batches)
        call = Call(function=lambda: (threading.current_thread(), first.done()), client="a")
        alone = threads.submit(queue.run, call, time.monotonic() + SOON)
        until(lambda: queue.asks)
        watched.gate.set()
        thread, _ = alone.result(SOON)
        assert thread is queue.thread
        with pytest.raises(ZeroDivisionError):
            queue.run(Call(function=lambda: 1 / 0, client="a"), time.monotonic() + SOON)


@refused(
    [
        ({"beam": 21}, "beam=21 and n_best=1 are more than this server's 20 and 10"),
        ({"beam": 20, "n_best": 11}, "beam=20 and n_best=11 are more"),
        ({"baem": 2}, "did you mean 'beam'"),
        ({"beam": 0}, "must be at least 1"),
    ],
)
def test_a_search_beyond_the_limits_is_refused(wrong: dict[str, int], watched: Watched, queue: Queue) -> None:
    queued(queue).translate(["dog."], **wrong)


def test_a_sentence_without_end_is_refused(watched: Watched, queue: Queue) -> None:
    with pytest.raises(InputError, match="a sentence has 20001 characters, more than 20000"):
        queued(queue).translate(["x" * 20_001])


def test_a_text_that_cannot_be_read_fails_alone(watched: Watched, queue: Queue) -> None:
    watched.gate.set()
    with pytest.raises(InputError, match="half a surrogate pair"):
        queued(queue).translate(["dog.", "\ud800"])
    assert queued(queue).translate(["cat."])[0].text == "Katze.", "the thread goes on"


def test_a_long_text_fits_into_a_short_queue(watched: Watched, sentences: list[str]) -> None:
    watched.gate.set()
    queue = Queue(lambda: watched, Limits(queue=10), Metrics())
    assert len(queued(queue).translate(sentences)) == len(sentences)
    queue.close()


# -- what is written piece by piece ------------------------------------------------------------------------------------


class Pen:
    """Pieces that note who wrote them, once the gate is open."""

    def __init__(self, name: str, count: int, notes: list[str], gate: threading.Event) -> None:
        self.name, self.left, self.notes, self.gate = name, count, notes, gate

    def __iter__(self) -> "Pen":
        return self

    def __next__(self) -> str:
        assert self.gate.wait(SOON)
        if not self.left:
            raise StopIteration
        self.left -= 1
        self.notes.append(self.name)
        return f"{self.name}{self.left}"


def test_texts_are_written_by_turns_and_each_comes_whole(queue: Queue, watched: Watched) -> None:
    """A short one that comes last is done long before the first; no more than a few are begun at a time."""
    notes, gate = list[str](), threading.Event()
    lengths = {"a": 10 * PIECES, "b": 9 * PIECES, "c": 8 * PIECES, "d": 7 * PIECES, "e": 3}
    assert len(lengths) == WRITERS + 1

    def read(name: str) -> list[str]:
        asked = Writing(pieces=Pen(name, lengths[name], notes, gate), client=name)
        return list(queue.read(asked, time.monotonic() + SOON))

    gate.set()
    with ThreadPoolExecutor(len(lengths) + 1) as threads:
        found = dict[str, Any]()
        threads.submit(queued(queue).translate, ["dog."])  # which keeps the queue's thread until all are here
        until(lambda: watched.batches)
        for i, name in enumerate(lengths):
            found[name] = threads.submit(read, name)
            until(lambda i=i: len(queue.asks) == i + 1)
        watched.gate.set()
        for name, count in lengths.items():
            assert found[name].result(SOON) == [f"{name}{left}" for left in reversed(range(count))]
    turns = "".join(notes[i] for i in range(0, len(notes), PIECES))
    assert turns.startswith("abcdabcd")
    assert notes.index("e") > len(notes) - notes[::-1].index("d") - 1, "it waits until one of the four is done"
    assert notes.index("e") < len(notes) - PIECES, "but not until all are"


def test_a_batch_comes_between_two_turns_of_a_text(queue: Queue, watched: Watched) -> None:
    gate, notes = threading.Event(), list[str]()
    watched.gate.set()
    asked = Writing(pieces=Pen("a", 10**6, notes, gate), client="a")
    pieces = queue.read(asked, time.monotonic() + SOON)
    gate.set()
    next(pieces)
    assert queued(queue, "b").translate(["cat."])[0].text == "Katze."
    pieces.close()
    until(lambda: not queue.asks)
    assert len(notes) < 10**6, "what nobody reads on is not written on"


def test_a_text_that_cannot_be_written_ends_in_its_error(queue: Queue) -> None:
    def pieces() -> Iterator[str]:
        yield "one"
        raise InputError("no more")

    found = queue.read(Writing(pieces=pieces(), client="a"), time.monotonic() + SOON)
    assert next(found) == "one"
    with pytest.raises(InputError, match="no more"):
        next(found)


def test_who_hangs_up_ends_the_writing(queue: Queue) -> None:
    gate, notes = threading.Event(), list[str]()
    gate.set()
    asked = Writing(pieces=Pen("a", 10**6, notes, gate), client="a")
    found = queue.read(asked, time.monotonic() + SOON)
    next(found)
    asked.gone.set()
    with pytest.raises(Refusal, match="the client hung up"):
        list(found)
    assert not queue.asks
    assert len(notes) < 10**6
    assert queue.metrics.total("qkv_abandoned_sentences_total") == 1
