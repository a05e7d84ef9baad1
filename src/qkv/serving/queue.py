"""The queue: sentences of all clients, translated together by one thread, each answered as if it were alone."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from qkv.config import check_keys
from qkv.decoding import Search, Translated, Translator
from qkv.decoding.alignment import Links, align
from qkv.errors import InputError
from qkv.folder import About
from qkv.serving.limits import Limits, Refusal, share_of
from qkv.serving.metrics import Metrics

T = TypeVar("T")
TOKENS = 1024  # of one turn: what comes meanwhile waits for about a second on one core
WAIT = 0.005  # seconds in which others may join a turn that is not full
GONE = 499  # nginx's status for a client that hung up: nobody reads it but the metrics
CHUNK = 64  # sentences of one request that stand in the queue at a time, so that a long document lets others pass


@dataclass(eq=False)
class Job:
    """What one request waits for: sentences for one translator, all to be searched in the same way."""

    translator: Translator
    texts: list[str]
    how: Search
    client: str
    gone: threading.Event = field(default_factory=threading.Event)  # set when the client hangs up
    answer: "Future[list[Translated]]" = field(default_factory=Future)
    taken: int = 0  # sentences that a turn has taken; they are taken in order
    done: list[Translated] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return 0 if self.answer.done() else len(self.texts) - self.taken


@dataclass(eq=False)
class Call:
    """Something else that needs the models for itself, such as recording their attention."""

    function: Callable[[], Any]
    client: str
    gone: threading.Event = field(default_factory=threading.Event)
    answer: "Future[Any]" = field(default_factory=Future)
    waiting: int = 1


class Queue:
    """Bounded, fair and in turns: each turn takes one sentence of every job that fits, round and round."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.jobs: deque[Job | Call] = deque()
        self.news = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self.work, name="translating", daemon=True)
        self.thread.start()

    def put(self, job: Job | Call) -> None:
        """Add to the queue, or refuse: 503 if it is full, 429 if one client fills it."""
        with self.news:
            if job.gone.is_set():
                raise Refusal(GONE, "the client hung up")
            if self.closed:
                raise Refusal(503, "the server is stopping; try again in a minute", 60)
            total = sum(other.waiting for other in self.jobs)
            own = sum(other.waiting for other in self.jobs if other.client == job.client)
            if own + job.waiting > share_of(self.limits.queue):
                raise Refusal(429, f"Slowdown: {own} of your sentences are waiting; send fewer at once", 2)
            if total + job.waiting > self.limits.queue:
                raise Refusal(503, f"{total} sentences are waiting and no more fit; try again in a moment", 2)
            self.jobs.append(job)
            self.metrics.waiting.set(total + job.waiting)
            self.news.notify()

    def run(self, job: Job | Call, deadline: float) -> Any:
        """The answer; past the deadline nobody wants it any more, and what has not begun is not begun."""
        self.put(job)
        try:
            return job.answer.result(timeout=max(deadline - time.monotonic(), 0))
        except TimeoutError:
            job.answer.cancel()
            late = "the answer took longer than the server allows; send less at once, or later"
            raise Refusal(503, late, 5) from None
        except CancelledError:
            raise Refusal(GONE, "the client hung up") from None

    def close(self) -> None:
        """Finish what waits, take nothing more."""
        with self.news:
            self.closed = True
            self.news.notify()
        self.thread.join()

    def work(self) -> None:
        while True:
            with self.news:
                if not self.jobs and not self.closed:
                    self.news.wait_for(lambda: self.jobs or self.closed)
                    self.news.wait_for(lambda: self.closed, WAIT)
                self.drop_abandoned()
                if not self.jobs:
                    if self.closed:
                        return
                    continue
                first = self.jobs[0]
                if isinstance(first, Call):
                    self.jobs.popleft()
                turn = first if isinstance(first, Call) else self.take(first)
                self.metrics.waiting.set(sum(job.waiting for job in self.jobs))
            answer(turn) if isinstance(turn, Call) else translate(turn, self.metrics)

    def drop_abandoned(self) -> None:
        """What nobody waits for any more leaves the queue before it is translated."""
        for job in [job for job in self.jobs if job.gone.is_set()]:
            self.metrics.abandoned.inc(job.waiting)
            job.answer.cancel()
            self.jobs.remove(job)

    def take(self, first: Job) -> list[tuple[Job, list[str]]]:
        """The sentences of the next turn, by job; jobs with something left go to the end of the queue."""
        like = (job for job in self.jobs if isinstance(job, Job) and job.waiting)
        round_of = deque(job for job in like if job.translator is first.translator and job.how == first.how)
        turn: dict[Job, list[str]] = {}
        tokens = 0
        while round_of and tokens < TOKENS:
            job = round_of.popleft()
            text = job.texts[job.taken]
            try:
                tokens += len(job.translator.tokenizer.encode(text)) + 1
            except Exception as error:  # of this job alone: the thread goes on for the others
                fail(job.answer, error)
                turn.pop(job, None)
                continue
            turn.setdefault(job, []).append(text)
            job.taken += 1
            if job.waiting:
                round_of.append(job)
        others = [job for job in self.jobs if job not in turn]
        self.jobs = deque(job for job in [*others, *turn] if job.waiting)
        return list(turn.items())


def translate(turn: list[tuple[Job, list[str]]], metrics: Metrics) -> None:
    """One batch for all; if it fails, each job alone, so that none fails because of another."""
    if not turn:
        return
    job = turn[0][0]
    texts = [text for _, some in turn for text in some]
    metrics.batch.observe(len(texts))
    try:
        found = iter(job.translator.translate(texts, **vars(job.how)))
    except Exception as error:
        if len(turn) == 1:
            return fail(job.answer, error)
        for one in turn:
            translate([one], metrics)
        return
    for job, some in turn:
        job.done += [next(found) for _ in some]
        if len(job.done) == len(job.texts):
            with suppress(InvalidStateError):  # given up a moment ago
                job.answer.set_result(job.done)


def answer(call: Call) -> None:
    if call.answer.set_running_or_notify_cancel():
        try:
            call.answer.set_result(call.function())
        except Exception as error:
            fail(call.answer, error)


def fail(future: "Future[Any]", error: Exception) -> None:
    with suppress(InvalidStateError):
        future.set_exception(error)


def check_search(limits: Limits, how: Mapping[str, int | float | bool]) -> Search:
    """How to search, refused if it asks for more than the server gives."""
    check_keys(Search, how, "search")
    search = Search(**how)  # type: ignore[arg-type]
    if search.beam > limits.beam or search.n_best > limits.alternatives:
        given = f"beam={search.beam} and n_best={search.n_best}"
        raise InputError(f"{given} are more than this server's {limits.beam} and {limits.alternatives}; ask for less")
    return search


@dataclass
class Queued:
    """A translator whose sentences go through the queue, for one request."""

    translator: Translator
    queue: Queue
    client: str
    deadline: float
    gone: threading.Event = field(default_factory=threading.Event)  # set when the client hangs up

    @property
    def about(self) -> About:
        return self.translator.about

    def translate(self, texts: Sequence[str], **how: Any) -> list[Translated]:
        search = check_search(self.queue.limits, how)
        longest, most = max(map(len, texts), default=0), self.queue.limits.characters
        if longest > most:
            raise InputError(f"a sentence has {longest} characters, more than {most}; cut it into several")
        found, chunk = list[Translated](), min(CHUNK, share_of(self.queue.limits.queue))
        for start in range(0, len(texts), chunk):
            job = Job(self.translator, list(texts[start : start + chunk]), search, self.client, self.gone)
            found += self.queue.run(job, self.deadline)
        return found

    def alone(self, function: Callable[[], T]) -> T:
        """The result of a function that has the models for itself."""
        return cast(T, self.queue.run(Call(function, self.client, self.gone), self.deadline))

    def align(self, pairs: list[tuple[str, str]]) -> list[Links]:
        """The links between the words of each pair (source, target)."""
        return self.alone(lambda: align(self.translator, pairs))
