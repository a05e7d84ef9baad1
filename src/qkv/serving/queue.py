"""A model's queue: what all clients ask of it, done by one thread, each answered as if it were alone."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from qkv.serving.limits import Limits, Refusal, share_of
from qkv.serving.metrics import Metrics

TOKENS = 1024  # of one turn: what comes meanwhile waits for about a second on one core
WAIT = 0.005  # seconds in which others may join a turn that is not full
GONE = 499  # nginx's status for a client that hung up: nobody reads it but the metrics
PIECES = 8  # that are written of a text in one turn
WRITERS = 4  # requests that are written for at a time: each keeps the keys and values of its texts


@dataclass(eq=False, kw_only=True)
class Ask:
    """One thing that a request waits for."""

    client: str
    gone: threading.Event = field(default_factory=threading.Event)  # set when the client hangs up
    answer: "Future[Any]" = field(default_factory=Future)
    waiting: int = 1  # texts that no turn has taken yet

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):  # given up a moment ago
            self.answer.set_exception(error)


@dataclass(eq=False, kw_only=True)
class Job(Ask):
    """Texts, or other plain data, of which the model does some together with those of other jobs of the same kind."""

    work: Callable[..., Any]  # a method of the model: a list in, an answer for each out
    items: list[Any]
    how: Mapping[str, Any] = field(default_factory=dict)
    done: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = len(self.items)

    def next(self) -> Any:
        """They are taken in order."""
        return self.items[len(self.items) - self.waiting]


@dataclass(eq=False, kw_only=True)
class Call(Ask):
    """Something else that needs the model for itself, such as recording its attention."""

    function: Callable[[], Any]


@dataclass(eq=False, kw_only=True)
class Writing(Ask):
    """What is written piece by piece, some at a turn: others write between them."""

    pieces: Iterator[Any]
    has_begun: bool = False
    written: "SimpleQueue[Any]" = field(default_factory=SimpleQueue)  # pieces; at the end, the answer is done


class Queue:
    """Bounded, fair and in turns: each turn takes one item of every job that fits, round and round."""

    def __init__(self, opener: Callable[[], Any], limits: Limits, metrics: Metrics) -> None:
        """`opener` gives the model whenever it is needed: it may not be in memory all the time."""
        self.opener, self.limits, self.metrics = opener, limits, metrics
        self.asks: deque[Ask] = deque()
        self.news = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self.work, name="answering", daemon=True)
        self.thread.start()

    @property
    def model(self) -> Any:
        return self.opener()

    @property
    def waiting(self) -> int:
        return sum(ask.waiting for ask in list(self.asks))

    def put(self, ask: Ask) -> None:
        """Add to the queue, or refuse: 503 if it is full, 429 if one client fills it."""
        with self.news:
            if ask.gone.is_set():
                raise Refusal(GONE, "the client hung up")
            if self.closed:
                raise Refusal(503, "the server is stopping; try again in a minute", 60)
            own = sum(other.waiting for other in self.asks if other.client == ask.client)
            if own + ask.waiting > share_of(self.limits.queue):
                raise Refusal(429, f"Slowdown: {own} of your sentences are waiting; send fewer at once", 2)
            if self.waiting + ask.waiting > self.limits.queue:
                raise Refusal(503, f"{self.waiting} sentences are waiting and no more fit; try again in a moment", 2)
            self.asks.append(ask)
            self.news.notify()

    def run(self, ask: Ask, deadline: float) -> Any:
        """The answer; past the deadline nobody wants it any more, and what has not begun is not begun."""
        self.put(ask)
        try:
            return ask.answer.result(timeout=max(deadline - time.monotonic(), 0))
        except TimeoutError:
            ask.answer.cancel()
            raise late() from None
        except CancelledError:
            raise Refusal(GONE, "the client hung up") from None

    def read(self, ask: Writing, deadline: float) -> Iterator[Any]:
        """The pieces as they are written; what nobody reads on is not written on."""
        self.put(ask)
        try:
            while not (ask.answer.done() and ask.written.empty()):
                left = deadline - time.monotonic()
                try:
                    piece = ask.written.get(timeout=max(left, 0))
                except Empty:
                    raise late() from None
                if left < 0:
                    raise late()
                if piece is not None:  # which only wakes who waits
                    yield piece
            try:
                ask.answer.result()
            except CancelledError:
                raise Refusal(GONE, "the client hung up") from None
        finally:
            ask.answer.cancel()

    def close(self) -> None:
        """Finish what waits, take nothing more."""
        with self.news:
            self.closed = True
            self.news.notify()
        self.thread.join()

    def work(self) -> None:
        while True:
            with self.news:
                if not self.asks and not self.closed:
                    self.news.wait_for(lambda: self.asks or self.closed)
                    self.news.wait_for(lambda: self.closed, WAIT)
                self.drop_abandoned()
                if not self.asks:
                    if self.closed:
                        return
                    continue
                turn = self.take()
            turn()

    def drop_abandoned(self) -> None:
        """What nobody waits for any more leaves the queue before it is done."""
        for ask in [ask for ask in self.asks if ask.gone.is_set() or ask.answer.done()]:
            if not ask.answer.done():
                self.metrics.abandoned.inc(ask.waiting)
            ask.answer.cancel()
            self.asks.remove(ask)
            if isinstance(ask, Writing):
                ask.written.put(None)

    def take(self) -> Callable[[], None]:
        """What is done in the next turn."""
        first = self.asks[0]
        if isinstance(first, Job):
            taken = self.items_like(first)
            return lambda: self.together(taken)
        self.asks.popleft()
        if isinstance(first, Call):
            return lambda: answer(first)
        assert isinstance(first, Writing)
        begun = sum(isinstance(other, Writing) and other.has_begun for other in self.asks)
        first.has_begun = first.has_begun or begun < WRITERS
        self.asks.append(first)  # until it is done
        return (lambda: write(first)) if first.has_begun else lambda: None

    def items_like(self, first: Job) -> list[tuple[Job, list[Any]]]:
        """The items of the next turn, by job; jobs with something left go to the end of the queue."""
        like = (job for job in self.asks if isinstance(job, Job) and job.waiting)
        round_of = deque(job for job in like if job.work == first.work and job.how == first.how)
        turn: dict[Job, list[Any]] = {}
        tokens = 0
        while round_of and tokens < TOKENS:
            job = round_of.popleft()
            item = job.next()
            try:
                tokens += self.size(item)
            except Exception as error:  # of this job alone: the thread goes on for the others
                job.fail(error)
                turn.pop(job, None)
                continue
            turn.setdefault(job, []).append(item)
            job.waiting -= 1
            if job.waiting:
                round_of.append(job)
        others = [ask for ask in self.asks if ask not in turn]
        self.asks = deque(ask for ask in [*others, *turn] if ask.waiting and not ask.answer.done())
        return list(turn.items())

    def size(self, item: Any) -> int:
        """Tokens of a text, or of all texts in a list or a table of them."""
        if isinstance(item, str):
            return len(self.model.tokenizer.encode(item)) + 1
        several = item.values() if isinstance(item, Mapping) else item if isinstance(item, list) else ()
        return 1 + sum(map(self.size, several))

    def together(self, turn: list[tuple[Job, list[Any]]]) -> None:
        """One batch for all; if it fails, each job alone, so that none fails because of another."""
        if not turn:
            return
        job, items = turn[0][0], [item for _, some in turn for item in some]
        self.metrics.batch.observe(len(items))
        try:
            found = iter(job.work(items, **job.how))
        except Exception as error:
            if len(turn) == 1:
                return job.fail(error)
            for one in turn:
                self.together([one])
            return
        for job, some in turn:
            job.done += [next(found) for _ in some]
            if len(job.done) == len(job.items):
                with suppress(InvalidStateError):  # given up a moment ago
                    job.answer.set_result(job.done)


def answer(call: Call) -> None:
    if call.answer.set_running_or_notify_cancel():
        try:
            call.answer.set_result(call.function())
        except Exception as error:
            call.fail(error)


def write(ask: Writing) -> None:
    """Some pieces more; the answer is done with the last."""
    try:
        for _ in range(PIECES):
            if ask.answer.done():  # given up
                return
            ask.written.put(next(ask.pieces))
    except StopIteration:
        with suppress(InvalidStateError):
            ask.answer.set_result(None)
        ask.written.put(None)
    except Exception as error:
        ask.fail(error)
        ask.written.put(None)


def late() -> Refusal:
    return Refusal(503, "the answer took longer than the server allows; send less at once, or later", 5)
