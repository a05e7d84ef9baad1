"""A model for one request: what is asked of it goes through its queue, until the deadline or until nobody waits."""

import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from qkv.config import check_keys
from qkv.decoding import Search, Translated
from qkv.decoding.generator import Increment
from qkv.documents.place import Links
from qkv.errors import InputError
from qkv.folder import About
from qkv.serving.limits import Limits, share_of
from qkv.serving.queue import Call, Job, Queue, Writing

T = TypeVar("T")
CHUNK = 64  # items of one request that stand in the queue at a time, so that a long document lets others pass
ROWS = 4  # texts of one request that are written at a time, unless they are of one prompt


@dataclass
class Queued:
    """The model of a queue, for one request."""

    queue: Queue
    client: str
    deadline: float
    gone: threading.Event = field(default_factory=threading.Event)  # set when the client hangs up

    @property
    def model(self) -> Any:
        return self.queue.model

    def ask(self, work: Callable[..., Any], items: Sequence[Any], **how: Any) -> list[Any]:
        """What a method of the model gives for each item, together with items of other requests."""
        found, chunk = list[Any](), min(CHUNK, share_of(self.queue.limits.queue))
        for start in range(0, len(items), chunk):
            some = list(items[start : start + chunk])
            job = Job(work=work, items=some, how=how, client=self.client, gone=self.gone)
            found += self.queue.run(job, self.deadline)
        return found

    def alone(self, function: Callable[[], T]) -> T:
        """The result of a function that has the model for itself."""
        return cast(T, self.queue.run(Call(function=function, client=self.client, gone=self.gone), self.deadline))

    def write(
        self, prompts: Sequence[Any], tokens: int, search: Search, enough: Container[int] = ()
    ) -> Iterator[Increment]:
        """`Generator.pieces`, some prompts after others; once all rows of some are in `enough`, those are over."""
        n = search.n_best
        step = max(ROWS // n, 1)
        for start in range(0, len(prompts), step):
            some = prompts[start : start + step]
            pieces = self.model.pieces(some, tokens, search, first=start)
            for piece in self.queue.read(Writing(pieces=pieces, client=self.client, gone=self.gone), self.deadline):
                yield piece
                if all(row in enough for row in range(start * n, (start + len(some)) * n)):
                    break


@dataclass
class QueuedTranslator(Queued):
    """A translator whose sentences go through the queue, for one request."""

    @property
    def about(self) -> About:
        return self.model.about

    def translate(self, texts: Sequence[str], **how: Any) -> list[Translated]:
        search = check_search(self.queue.limits, how)
        longest, most = max(map(len, texts), default=0), self.queue.limits.characters
        if longest > most:
            raise InputError(f"a sentence has {longest} characters, more than {most}; cut it into several")
        return self.ask(self.model.translate, texts, **vars(search))

    def align(self, sources: list[str], targets: list[str]) -> list[Links]:
        return self.alone(lambda: self.model.align(sources, targets))


def check_search(limits: Limits, how: Mapping[str, int | float | bool]) -> Search:
    """How to search, refused if it asks for more than the server gives."""
    check_keys(Search, how, "search")
    search = Search(**how)  # type: ignore[arg-type]
    if search.beam > limits.beam or search.n_best > limits.alternatives:
        given = f"beam={search.beam} and n_best={search.n_best}"
        raise InputError(f"{given} are more than this server's {limits.beam} and {limits.alternatives}; ask for less")
    return search
