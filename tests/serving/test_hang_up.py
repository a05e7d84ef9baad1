"""A client that hangs up: over a real socket, to a real server; what nobody waits for is not translated."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from qkv.serving import Limits, Models, Service, make_app
from qkv.serving.queue import Ask
from qkv.serving.queued import CHUNK
from qkv.serving.server import listening

SOON = 30.0  # seconds
PAIR = {"source": "en", "target": "de"}


class Running:
    """A server whose translator notes its batches, and waits before each until the gate is open."""

    def __init__(self, service: Service, port: int) -> None:
        self.service, self.port = service, port
        self.gate, self.batches = threading.Event(), list[list[str]]()
        translator, self.queue = service.models.served[0].translator, next(iter(service.queues.values()))
        own = translator.translate

        def translate(texts: list[str], **how: Any) -> Any:
            self.batches.append(list(texts))
            assert self.gate.wait(SOON)
            return own(texts, **how)

        translator.translate = translate  # type: ignore[assignment,method-assign]
        self.asks: list[Ask] = []  # all that ever came to the queue
        put = self.queue.put
        self.queue.put = lambda ask: (self.asks.append(ask), put(ask))[1]  # type: ignore[method-assign]

    def send(self, path: str, **fields: Any) -> socket.socket:
        body = json.dumps(fields).encode()
        line = socket.create_connection(("127.0.0.1", self.port), SOON)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return line

    def waits(self) -> int:
        return self.queue.waiting

    def hang_up(self, line: socket.socket) -> None:
        """And wait until the server knows."""
        line.close()
        until(self.asks[-1].gone.is_set)

    @property
    def abandoned(self) -> float:
        return self.service.metrics.total("qkv_abandoned_sentences_total")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def answer(line: socket.socket) -> Any:
    with line, line.makefile("rb") as file:
        return json.loads(file.read().partition(b"\r\n\r\n")[2])


@pytest.fixture
def running(model_folder: Path) -> Iterator[Running]:
    service = Service(Models.load([model_folder]))
    with listening("127.0.0.1", 0) as door:
        server = uvicorn.Server(uvicorn.Config(make_app(service), log_config=None, ws="none"))
        thread = threading.Thread(target=lambda: server.run(sockets=[door]))
        thread.start()
        found = Running(service, door.getsockname()[1])
        yield found
        found.gate.set()
        server.should_exit = True
        thread.join(SOON)
    service.close()


@pytest.mark.parametrize(
    ("path", "wish", "sentences"),
    [
        ("/translate", {"q": ["cat.", "cat and boat."], **PAIR}, 2),
        ("/api/translate", {"q": "cat."}, 1),
        ("/api/translate", {"q": "cat.", "tokens": True}, 1),
    ],
    ids=["LibreTranslate's", "ours", "a look inside"],
)
def test_what_nobody_waits_for_is_not_translated(
    path: str, wish: dict[str, Any], sentences: int, running: Running
) -> None:
    first = running.send("/translate", q="dog.", **PAIR)
    until(lambda: running.batches)
    line = running.send(path, **wish)
    until(lambda: running.waits() == sentences)
    running.hang_up(line)
    last = running.send("/translate", q="snow.", **PAIR)
    until(lambda: len(running.queue.asks) == 2)
    running.gate.set()
    assert (answer(first), answer(last)) == ({"translatedText": "Hund."}, {"translatedText": "Schnee."})
    assert running.batches == [["dog."], ["snow."]]
    assert running.abandoned == sentences
    until(lambda: running.service.active == 0)


def test_the_rest_of_a_long_text_is_not_begun(running: Running) -> None:
    """Its first sentences are being translated when the client hangs up; the others have not come to the queue yet."""
    line = running.send("/translate", q=[f"{number} dog." for number in range(CHUNK + 20)], **PAIR)
    until(lambda: running.batches)
    running.hang_up(line)
    running.gate.set()
    until(lambda: running.service.active == 0)
    assert running.batches == [[f"{number} dog." for number in range(CHUNK)]]


def test_who_stays_is_answered_though_others_hang_up(running: Running) -> None:
    """Hanging up after the answer, too, is nobody's loss."""
    running.gate.set()
    for text, translation in (("dog.", "Hund."), ("cat.", "Katze.")):
        assert answer(running.send("/translate", q=text, **PAIR)) == {"translatedText": translation}
    assert running.abandoned == 0


def test_what_stood_beside_a_text_that_was_refused_is_not_translated(running: Running) -> None:
    running.queue.limits = Limits(queue=4)  # of which one client may have two
    first = running.send("/translate", q="dog.", **PAIR)
    until(lambda: running.batches)
    refused = answer(running.send("/api/translate", q=["cat.", "snow.", "boat."], target="de"))
    assert refused["error"].startswith("Slowdown: 2 of your sentences are waiting")
    running.gate.set()
    assert answer(first) == {"translatedText": "Hund."}
    until(lambda: running.abandoned == 2)
    assert running.batches == [["dog."]]


def test_a_text_that_nobody_reads_on_is_not_written_on(lm_folder: Path) -> None:
    """The client closes its socket in the middle of a stream of which a million tokens are still to come."""
    service = Service(Models.load([lm_folder]), Limits(tokens=10**6, seconds=600))
    with listening("127.0.0.1", 0) as door:
        server = uvicorn.Server(uvicorn.Config(make_app(service), log_config=None, ws="none"))
        thread = threading.Thread(target=lambda: server.run(sockets=[door]))
        thread.start()
        body = json.dumps({"q": "the", "tokens": 10**6, "endless": True, "stream": True}).encode()
        line = socket.create_connection(door.getsockname(), SOON)
        head = (
            f"POST /api/generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        line.sendall(head.encode() + b"\r\n\r\n" + body)
        told = b""
        while told.count(b"data: ") < 3:
            told += line.recv(2**16)
        assert service.active == 1
        line.close()
        until(lambda: service.active == 0)
        until(lambda: not service.queues[service.models.named("lm")].asks)
        assert service.metrics.total("qkv_abandoned_sentences_total") == 1
        server.should_exit = True
        thread.join(SOON)
    service.close()
