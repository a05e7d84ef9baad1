"""Connections that never say what they want: each is closed in its time, and those that are served are not."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from qkv.serving.connections import protocol
from qkv.serving.limits import Limits

SECONDS, MOST = 1, 4
LARGE = 2**26  # bytes, more than all buffers between a server and a client hold
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
Call = Callable[[], socket.socket]


async def slow(request: Request) -> PlainTextResponse:
    """Longer than headers may take."""
    await asyncio.sleep(2 * SECONDS)
    return PlainTextResponse("done")


async def large(request: Request) -> PlainTextResponse:
    return PlainTextResponse(bytes(LARGE))


@pytest.fixture
def server() -> uvicorn.Server:
    limits = Limits(header_seconds=SECONDS, connections=MOST, seconds=SECONDS)
    config = uvicorn.Config(
        Starlette(routes=[Route("/", slow), Route("/large", large)]), http=protocol(limits), log_config=None,
        timeout_keep_alive=60,
    )  # fmt: skip
    return uvicorn.Server(config)


@pytest.fixture
def call(server: uvicorn.Server) -> Iterator[Call]:
    """A new connection to a server with these limits."""
    door = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        opened.append(socket.create_connection(door.getsockname(), timeout=30))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()
    server.should_exit = True
    thread.join()


def answer(connection: socket.socket) -> bytes:
    """All that comes until the whole answer is there, or the other end closes."""
    found = b""
    while not found.endswith(b"done") and (more := connection.recv(4096)):
        found += more
    return found


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: here\r\nX-Endless: "])
def test_headers_that_never_end(begun: bytes, call: Call) -> None:
    connection = call()
    connection.sendall(begun)
    assert connection.recv(1) == b"", "it was closed"


def test_what_is_answered_takes_its_time_and_the_next_headers_have_theirs(call: Call) -> None:
    connection = call()
    for _ in range(2):
        connection.sendall(GET)
        assert answer(connection).endswith(b"done")
    connection.sendall(GET[:10])
    assert connection.recv(1) == b""


def test_dripping_headers_are_no_way_around(call: Call) -> None:
    connection, is_open = call(), True
    connection.settimeout(0.2)
    while is_open:
        try:
            connection.sendall(b"a")
            is_open = connection.recv(1) != b""
        except TimeoutError:
            continue
        except OSError:  # reset, or a broken pipe
            is_open = False


def test_one_connection_too_many(call: Call) -> None:
    held = [call() for _ in range(MOST)]
    for one in held:
        one.sendall(GET)
    assert call().recv(1) == b""
    assert all(answer(one).endswith(b"done") for one in held)
    held[0].close()
    time.sleep(0.2)
    last = call()
    last.sendall(GET)
    assert answer(last).endswith(b"done")


def test_an_answer_that_nobody_reads(call: Call, server: uvicorn.Server) -> None:
    """The connection is let go, though its client never closes it."""
    connection = call()
    connection.sendall(GET.replace(b"/ ", b"/large "))
    assert connection.recv(1) == b"H"
    assert server.server_state.connections
    while server.server_state.connections:
        time.sleep(0.05)
