"""A real server: requests of noise, connections that are slow in every way, and a long mixed load."""

import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest

from attack.harness import BYTES, SEED, count, record
from attack.models import save_models
from qkv.serving import ROUTES

pytestmark = pytest.mark.attack
CLIENTS = 8
SECONDS, HEADERS = 6, 3  # limits of the server to which slow clients come
PATIENCE = 120.0  # seconds in which any answer has come on a busy machine
TEXTS = [
    "the cat",
    "the cat sat on the mat. the mat sat.",
    "",
    "\u202e\ud83d\ude00 a\nb",
    "<b>the</b> cat &amp; <mask>",
]
RIGHT: dict[str, list[Any]] = {  # values of fields that are right for some model or other
    "q": [*TEXTS, TEXTS, {"text": "the cat", "second": "the mat"}, "a" * 500], "prompt": TEXTS, "input": TEXTS,
    "source": ["en", "auto"], "target": ["de", "en"], "model": ["mt", "lm", "bert", "critic"],
    "format": ["text", "html"], "beam": [1, 2], "tokens": [4], "max_tokens": [4], "n_best": [1], "k": [3],
    "layer": [1], "head": [1],
    "attention": [True, {"kind": "encoder", "layer": 0}], "stream": [True, False], "alternatives": [1],
}  # fmt: skip
WRONG: list[Any] = [
    None, "", " ", "x" * 30_000, 0, -1, 10**30, 1e308, float("nan"), True, [], {}, [[]], [None], {"a": {"b": []}}, "\0",
    "\ud800", ["the cat"] * 101, -(10**9), 0.5, "9" * 5000, [[[[[[[[["deep"]]]]]]]]],
]  # fmt: skip
KINDS = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]


@dataclass
class Server:
    process: psutil.Popen
    port: int
    said: Path
    peak: int = 0

    def held(self) -> int:
        self.peak = max(self.peak, now := self.process.memory_info().rss)
        return now

    def fault(self) -> str:
        """What it wrote that no client should make it write."""
        text = self.said.read_text(encoding="utf-8", errors="replace")
        if self.process.poll() is not None:
            return f"ended with {self.process.returncode}: {text[-500:]}"
        return (
            text[-2000:] if "Traceback" in text or "ERROR" in text else "" if self.held() < BYTES else "too much memory"
        )


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in save_models(tmp_path_factory.mktemp("served"))]


@pytest.fixture
def serve(models: list[str], tmp_path: Path) -> Iterator[Callable[..., Server]]:
    place, started = tmp_path, list[Server]()

    def start(*flags: str) -> Server:
        command = [sys.executable, "-m", "qkv", "serve", "--model", *models, "--port", "0", *flags]
        with (place / "said").open("wb") as said:
            process = psutil.Popen(command, stdout=subprocess.PIPE, stderr=said)
        found = re.match(rb"http://127.0.0.1:(\d+)/", process.stdout.readline())
        assert found, (place / "said").read_text()
        started.append(Server(process, int(found[1]), place / "said"))
        return started[-1]

    yield start
    for server in started:
        server.process.terminate()
        server.process.communicate(timeout=60)


# -- noise -----------------------------------------------------------------------------------------------------------


def body_of(rng: random.Random, names: list[str]) -> tuple[str, bytes]:
    """A content type and a body that may fit it: fields that a route has, right or wrong, or noise."""
    chosen = [name for name in names if rng.random() < 0.6]
    tree = {name: rng.choice(RIGHT.get(name, WRONG) if rng.random() < 0.7 else WRONG) for name in chosen}
    kind = rng.choice(KINDS) if rng.random() < 0.3 else KINDS[0]
    if rng.random() < 0.1:
        return kind, rng.randbytes(rng.randrange(200))
    if "urlencoded" in kind:
        return kind, urlencode({name: str(value) for name, value in tree.items()}, errors="replace").encode()
    if "multipart" in kind:
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in tree.items()
        ]
        file = (
            '--x\r\nContent-Disposition: form-data; name="file"; filename="a.html"\r\n\r\n<b>the cat</b>\r\n--x--\r\n'
        )
        return kind, ("".join(parts) + file).encode("utf-8", "replace")
    text = json.dumps(tree).encode()
    return kind, text[: rng.randrange(len(text) + 1)] if rng.random() < 0.1 else text


def noise(rng: random.Random) -> bytes:
    """A whole request, mostly one that HTTP allows."""
    entry = rng.choice(ROUTES)
    path = re.sub(r"{[^}]*}", "mt", entry.path) if rng.random() < 0.95 else "/" + urlencode({"a": rng.choice("%./\0é")})
    method = entry.method if rng.random() < 0.95 else rng.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "X"])
    kind, body = body_of(rng, [one.name for one in fields(entry.asks)] if entry.asks else ["q"])
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    if rng.random() < 0.1:
        head.append(
            rng.choice(["Origin: http://elsewhere", "Authorization: Bearer x", "X-Forwarded-For: 1.2.3.4", "Cookie: a"])
        )
    if rng.random() < 0.02:  # no HTTP at all
        return rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n"
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def answer(reader: asyncio.StreamReader, *, is_head: bool = False) -> tuple[int, bytes, bool]:
    """The status, the body, and whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status, body = int(head.split()[1]), b""
    if b"transfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    elif not is_head and (length := re.search(rb"content-length: (\d+)", head)):
        body = await reader.readexactly(int(length[1]))
    return status, body, b"connection: close" not in head


async def send_noise(server: Server, rng: random.Random, times: int, seen: Counter[str]) -> list[str]:
    """One request after the other; a status of 500, no answer at all, or a silence of minutes is a fault."""
    faults, open_ = list[str](), None
    for _ in range(times):
        request = noise(rng)
        is_http = re.match(rb"[A-Z]+ /", request) is not None
        reader, writer = open_ or await asyncio.open_connection("127.0.0.1", server.port)
        try:
            writer.write(request)
            if not is_http:
                writer.write_eof()
            is_head = request.startswith(b"HEAD")
            status, _, stays = await asyncio.wait_for(answer(reader, is_head=is_head), PATIENCE)
        except TimeoutError:
            status, stays = 0, False
        except (OSError, asyncio.IncompleteReadError):
            status, stays = 499 if not is_http else -1, False  # what is no HTTP may be left without an answer
        seen[str(status)] += 1
        if status in (0, -1, 500):
            faults.append(f"{status}: {request[:300]!r}")
        open_ = (reader, writer) if stays and is_http else None
        if open_ is None:
            writer.close()
    if open_ is not None:
        open_[1].close()
    return faults


def test_noise(serve: Callable[..., Server]) -> None:
    server, seen = serve("--characters", "2000", "--tokens", "16"), Counter[str]()
    share = -(-count("requests") // CLIENTS)

    async def every() -> list[list[str]]:
        clients = [send_noise(server, random.Random(f"{SEED} {i}"), share, seen) for i in range(CLIENTS)]
        return await asyncio.gather(*clients)

    began = time.monotonic()
    faults = [fault for some in asyncio.run(every()) for fault in some]
    faults += [fault] if (fault := server.fault()) else []
    about = {"seconds": round(time.monotonic() - began), "bytes": server.peak, "statuses": dict(sorted(seen.items()))}
    record("requests", {"given": seen.total(), "fault": "\n".join(faults)[:2000], "faults": len(faults), **about})
    assert not faults, "\n".join(faults[:20])


# -- slow ------------------------------------------------------------------------------------------------------------

BODY = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
SLOW = {
    "says nothing": b"",
    "headers that never end": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: ",
    "a body that never ends": b"POST /translate HTTP/1.1\r\n" + BODY + b"\r\n{",
    "a file that never ends": b"POST /translate_file HTTP/1.1\r\n" + BODY + b"X-Forwarded-For: 10.0.0.%d\r\n\r\n--x",
    "an answer that is not read": b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 60,  # more than waits in sockets
}


def test_slow_connections(serve: Callable[..., Server]) -> None:
    """From many addresses; they drip on while they may. In its time each is closed, and somebody else is answered."""
    server = serve("--seconds", str(SECONDS), "--header-seconds", str(HEADERS), "--requests", "32")
    opened: list[tuple[str, socket.socket]] = []
    for i in range(count("slow")):
        kind = [*SLOW][i % len(SLOW)]
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.bind((f"127.0.{1 + i // 200}.{1 + i % 200}", 0))
        one.settimeout(PATIENCE)
        one.connect(("127.0.0.1", server.port))
        one.setblocking(False)
        with suppress(BlockingIOError):
            one.sendall(SLOW[kind].replace(b"%d", str(i % 250).encode()))
        opened.append((kind, one))
    began, alive = time.monotonic(), [*opened]
    while alive and time.monotonic() - began < PATIENCE:
        alive = [(kind, one) for kind, one in alive if drips(kind, one)]
        server.held()
        time.sleep(0.25)
    took = time.monotonic() - began
    connections = [one for one in server.process.net_connections() if one.status == psutil.CONN_ESTABLISHED]
    status = ask(server.port, "/translate", {"q": "the cat", "source": "en", "target": "de"})[0]
    faults = [f"{kind} is still open" for kind, _ in alive] + ([f"{status} afterwards"] if status != 200 else [])
    faults += [f"{len(connections)} connections are left"] if connections else []
    faults += [fault] if (fault := server.fault()) else []
    for _, one in opened:
        one.close()
    about = {"seconds": round(took), "bytes": server.peak}
    record("slow", {"given": len(opened), "fault": "\n".join(faults)[:2000], "faults": len(faults), **about})
    assert not faults, "\n".join(faults[:20])


def drips(kind: str, one: socket.socket) -> bool:
    """Send one byte more; whether the connection is still open. Who does not read looks no further than that."""
    try:
        one.send(b"a")
        return kind == "an answer that is not read" or one.recv(1) != b"" or drips(kind, one)
    except BlockingIOError:
        return True
    except OSError:
        return False


# -- load ------------------------------------------------------------------------------------------------------------


def ask(port: int, path: str, tree: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """One request by itself."""

    async def once() -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_of(path, tree))
        status, body, _ = await asyncio.wait_for(answer(reader), PATIENCE)
        writer.close()
        return status, body

    return asyncio.run(once())


def request_of(path: str, tree: dict[str, Any] | None) -> bytes:
    body = b"" if tree is None else json.dumps(tree).encode()
    head = (
        f"{'GET' if tree is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


PAIR = {"source": "en", "target": "de"}
LOAD: list[tuple[str, dict[str, Any] | None]] = [
    ("/", None), ("/docs", None), ("/spec", None), ("/languages", None), ("/health", None), ("/api/models", None),
    ("/v1/models", None), ("/frontend/settings", None), ("/detect", {"q": "two dogs play in the snow"}),
    ("/translate", {"q": "the cat", **PAIR}),
    ("/translate", {"q": ["the mat", "a <b>cat</b>"], "format": "html", **PAIR}),
    ("/api/translate", {"q": "the cat", **PAIR, "tokens": True, "alignment": True, "attention": True}),
    ("/api/look", {"q": "the cat", "model": "bert"}), ("/api/explain", {"q": "the cat", "model": "mt"}),
    ("/api/generate", {"q": "the", "tokens": 8, "model": "lm"}),
    ("/api/generate", {"q": "the", "tokens": 8, "model": "lm", "stream": True}),
    ("/v1/completions", {"model": "lm", "prompt": "the", "max_tokens": 4, "temperature": 0}),
    ("/api/fill", {"q": "the <mask> sat", "model": "bert"}),
    ("/api/embed", {"q": ["the cat", "the mat"], "model": "bert"}),
    ("/v1/embeddings", {"model": "bert", "input": "the cat"}),
    ("/api/predict", {"q": {"first": "the cat", "second": "the mat"}, "model": "critic"}),
    ("/translate", {"q": "the cat", "source": "en", "target": "xx"}), ("/nowhere", None),
]  # fmt: skip


def plain(body: bytes) -> bytes:
    """An answer without what tells one request from another: ids and clocks."""
    return re.sub(rb'"(id|created)": ?("[^"]*"|\d+)', b"", body)


FRACTION = re.compile(rb"-?\d+\.\d+(?:e-?\d+)?")


def is_same(one: bytes, other: bytes) -> bool:
    """To the letter, but for the last digits of fractions: torch adds numbers up in another order beside others."""
    if FRACTION.sub(b"", one) != FRACTION.sub(b"", other):
        return False
    both = zip(*([float(number) for number in FRACTION.findall(body)] for body in (one, other)), strict=True)
    return all(abs(ours - theirs) <= 1e-6 for ours, theirs in both)


async def send_load(server: Server, alone: list[tuple[int, bytes]], until: float, number: int) -> tuple[int, list[str]]:
    """Each route in turn, as long as there is time; whoever asks beside, the answers are those to one alone."""
    asked, faults, rng = 0, list[str](), random.Random(f"{SEED} {number}")
    while time.monotonic() < until and len(faults) < 5:
        which = rng.randrange(len(LOAD))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request_of(*LOAD[which]))
        try:
            status, body, _ = await asyncio.wait_for(answer(reader), PATIENCE)
            if status != alone[which][0] or not is_same(plain(body), alone[which][1]):
                faults.append(f"{LOAD[which]}: {status} {body[:200]!r} and not {alone[which]}"[:600])
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            faults.append(f"{LOAD[which]}: {type(error).__name__}")
        writer.close()
        asked += 1
    return asked, faults


def test_load(serve: Callable[..., Server]) -> None:
    server = serve()
    alone = [(status, plain(body)) for status, body in (ask(server.port, *one) for one in LOAD)]
    assert {status for status, _ in alone} == {200, 400, 404}, [
        (one[0], status) for one, (status, _) in zip(LOAD, alone, strict=True)
    ]

    async def every(seconds: float) -> list[tuple[int, list[str]]]:
        until = time.monotonic() + seconds
        return await asyncio.gather(*(send_load(server, alone, until, i) for i in range(CLIENTS)))

    seconds = count("load_seconds")
    first = asyncio.run(every(seconds / 4))
    before = server.held()
    rest = asyncio.run(every(seconds * 3 / 4))
    grown = server.held() - before
    asked = sum(number for number, _ in (*first, *rest))
    faults = [fault for _, some in (*first, *rest) for fault in some] + ([fault] if (fault := server.fault()) else [])
    faults += [f"grew by {grown:,} bytes"] if grown > 2**26 else []
    about = {"seconds": seconds, "bytes": server.peak, "grown": grown}
    record("load", {"given": asked, "fault": "\n".join(faults)[:2000], "faults": len(faults), **about})
    assert not faults, "\n".join(faults[:20])
