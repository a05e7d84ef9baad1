"""One server's state, and one request with all that answers it."""

import json
import re
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import anyio.to_thread
from starlette.requests import Request

from qkv.documents import Patterns
from qkv.errors import InputError
from qkv.serving.glossary import Glossary, Glossed
from qkv.serving.limits import Limits, Refusal, share_of
from qkv.serving.metrics import Metrics
from qkv.serving.models import Models, Served, opened
from qkv.serving.queue import Queue
from qkv.serving.queued import Queued
from qkv.serving.suggestions import Suggestions
from qkv.serving.uploads import Uploads

COOKIE = "qkv_key"
ABOUT_PAGE = "A file of the page."
PAUSE = 0.2  # seconds between two looks at what may be let go
Log = Literal["none", "text", "json"]
Guard = Literal["key", "metrics", "none"]  # what a route asks for where the server has a key


@dataclass
class Service:
    """What lives as long as the server: models, a queue for each, limits, figures, files that wait to be fetched."""

    models: Models
    limits: Limits = field(default_factory=Limits)
    key: str = ""  # empty: none is needed
    glossaries: dict[str, Glossary] = field(default_factory=dict)  # by the model's name
    suggestions: Suggestions | None = None
    protect: Patterns = ()  # what comes back byte for byte, besides placeholders
    metrics_token: str = ""  # for /metrics alone, instead of the key
    log: Log = "none"  # how a line for each request is written to standard error
    origins: Sequence[str] = ()  # sites whose pages may use this server though it has no key; "*" for all
    is_local: bool = False  # whether only this machine can reach it
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        if self.log not in (known := get_args(Log)):
            raise InputError(f"there is no log {self.log!r}; give {', '.join(known)}")
        if not re.fullmatch(r"[!-~]*", self.key + self.metrics_token):
            raise InputError("the API key has spaces or letters beyond ASCII, which no header holds; choose another")
        self.queues = self.queues_of(self.models)
        self.metrics.waiting.set_function(lambda: sum(queue.waiting for queue in list(self.queues.values())))
        self.metrics.loaded.set_function(lambda: sum(one.kept.is_open and not one.part for one in self.models.served))
        self.uploads = Uploads(self.limits)
        self.threads = anyio.CapacityLimiter(self.limits.requests)
        self.answered: set[object] = set()  # one for each request that is being answered
        self.metrics.active.set_function(lambda: self.active)
        self.reading: Counter[str] = Counter()  # requests that are still arriving, by client
        self.minute, self.seen = 0, Counter[str]()
        self.changing, self.closed = threading.Lock(), threading.Event()
        if any(one.kept.seconds for one in self.models.served):
            threading.Thread(target=self.tidy, name="tidying", daemon=True).start()

    @property
    def active(self) -> int:
        """Requests that are being answered."""
        return len(self.answered)

    def queues_of(self, models: Models) -> dict[Served, Queue]:
        openers = {one: partial(opened, one.kept, one.part) for one in models.served}
        return {one: Queue(opener, self.limits, self.metrics) for one, opener in openers.items()}

    def tidy(self) -> None:
        """Let go of models that nobody asks for, as long as the server lives."""
        while not self.closed.wait(PAUSE):
            self.models.release()

    def replace(self, models: Models, glossaries: dict[str, Glossary]) -> Iterator[None]:
        """Answer by other models from now on; go on with the iterator to let go of the old ones. Requests that are
        being answered end with those that they began with, and it waits for the last of them."""
        with self.changing:
            old, new = self.queues, self.queues_of(models)
            self.queues = old | new
            self.models, self.glossaries = models, glossaries
            before = set(self.answered)
            yield
            while before & self.answered and not self.closed.wait(PAUSE):
                pass
            self.queues = new
            for queue in old.values():
                queue.close()

    def close(self) -> None:
        self.closed.set()
        with self.changing:
            for queue in self.queues.values():
                queue.close()
        self.uploads.close()

    def admit(self, client: str) -> None:
        """Refuse a client that asks too often, and anyone when too much is going on."""
        if self.limits.per_minute:
            minute = int(time.monotonic() // 60)
            if minute != self.minute:
                self.minute, self.seen = minute, Counter()
            self.seen[client] += 1
            if self.seen[client] > (most := self.limits.per_minute):
                wait = 60 - int(time.monotonic() % 60)
                raise Refusal(429, f"Slowdown: more than {most} requests in a minute; wait a little", wait)
        if self.active > (most := self.limits.requests):  # this one is counted, too
            raise Refusal(503, f"{most} requests are being answered and no more fit; try again in a moment", 2)

    def tell(self, method: str, route: str, status: int, seconds: float) -> None:
        """One line for a request: no address, no key, no text."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        facts = {"time": now, "method": method, "route": route, "status": status, "seconds": round(seconds, 4)}
        if self.log != "none":
            line = json.dumps(facts) if self.log == "json" else f"{now} {method} {route} {status} {seconds:.3f} s"
            print(line, file=sys.stderr, flush=True)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While a request is answered."""
        one = object()
        self.answered.add(one)
        try:
            yield
        finally:
            self.answered.remove(one)

    @contextmanager
    def arriving(self, client: str) -> Iterator[None]:
        """While a request is read, which may take its time: nobody fills all places with such that never end."""
        if self.reading[client] >= share_of(self.limits.requests):
            raise Refusal(429, f"Slowdown: {self.reading[client]} of your requests are still arriving; end them", 2)
        self.reading[client] += 1
        try:
            yield
        finally:
            self.reading -= Counter([client])  # whose 0 is forgotten

    def check_key(self, request: Request, field: Any = None, guard: Guard = "key") -> None:
        """LibreTranslate's answers: 400 for no key (401 elsewhere), 403 for a wrong one (401 where OpenAI's are)."""
        if guard == "metrics" and self.metrics_token:
            if not secrets.compare_digest(bearer(request).encode("utf-8", "replace"), self.metrics_token.encode()):
                raise Refusal(401, "the figures have a token of their own; send it as Authorization: Bearer TOKEN")
            return
        if not self.key:
            return
        given = bearer(request) or field or request.query_params.get("api_key")
        given = given or (guard != "none" and request.cookies.get(COOKIE))  # an old one does not close what is open
        if not given and guard == "none":
            return
        if not given:
            status = 401 if request.url.path.startswith(("/api/", "/v1/")) else 400
            raise Refusal(status, "this server needs an API key; ask its operator for one and send it as api_key")
        if not secrets.compare_digest(str(given).encode("utf-8", "replace"), self.key.encode()):
            raise Refusal(401 if request.url.path.startswith("/v1/") else 403, "Invalid API key")


def bearer(request: Request) -> str:
    """The key of an Authorization header, if there is one."""
    given = request.headers.get("authorization", "")
    return given[7:] if given.lower().startswith("bearer ") else ""


@dataclass(frozen=True)
class Visit:
    """One request: what it says, who asks (for fairness only, never written), until when, and whether still."""

    service: Service
    request: Request
    values: dict[str, Any]
    client: str
    started: float = field(default_factory=time.monotonic)
    gone: threading.Event = field(default_factory=threading.Event)  # set when the client hangs up or is answered

    def model(self, served: Served) -> Queued:
        """The model through its queue."""
        return Queued(*self.waits(served))

    def translator(self, served: Served, seconds: int = 0) -> Glossed:
        """The same, of a translator, with the server's glossary."""
        return Glossed(*self.waits(served, seconds), self.service.glossaries.get(served.name))

    def waits(self, served: Served, seconds: int = 0) -> tuple[Queue, str, float, threading.Event]:
        """Where, for whom, until when, and whether still."""
        deadline = self.started + (seconds or self.service.limits.seconds)
        return self.service.queues[served], self.client, deadline, self.gone

    async def watch(self) -> None:
        """Ends when the client hangs up; all of the body has been read, so that nothing else can come."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    async def thread(self, function: Callable[..., Any], *given: Any) -> Any:
        """In a thread of its own, since a model takes its time."""
        return await anyio.to_thread.run_sync(function, *given, limiter=self.service.threads)


class Endpoint(NamedTuple):
    """One line of the table of routes: what it answers, and what its description says."""

    method: str
    path: str
    handle: Callable[[Visit], Any]  # gives a response, or data for JSON; what is not async runs in a thread
    about: str
    asks: type[Any] | None = None  # the fields of its body
    gives: str = "application/json"
    guard: Guard = "key"
