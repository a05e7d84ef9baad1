"""The process: a port to listen on, a signal to stop by, and a line at the beginning and at the end."""

import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import uvicorn

from qkv.errors import InputError
from qkv.serving.app import make_app
from qkv.serving.connections import is_address, protocol
from qkv.serving.glossary import Glossary
from qkv.serving.limits import ENVELOPE
from qkv.serving.models import Models
from qkv.serving.service import Service
from qkv.text.detection import identifier

Again = Callable[[], tuple[Models, dict[str, Glossary]]]


def serve(
    service: Service, host: str = "127.0.0.1", port: int = 5000, trust_proxy: str = "", again: Again | None = None
) -> None:
    """Answer requests until Ctrl-C or SIGTERM; then finish those that have begun.

    Who asks is told by X-Forwarded-For only if it comes from the address `trust_proxy`. SIGHUP asks `again` for models
    and glossaries, which answer from then on.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    with listening(host, port) as door, closing(service):
        limits = service.limits
        here = door.getsockname()[0]
        service.is_local = is_address(here) and ipaddress.ip_address(here).is_loopback
        config = uvicorn.Config(
            make_app(service), http=protocol(limits), ws="none", log_config=None, server_header=False,
            proxy_headers=bool(trust_proxy), forwarded_allow_ips=trust_proxy,
            access_log=False,  # an address is nobody's business
            timeout_graceful_shutdown=limits.file_seconds,
            h11_max_incomplete_event_size=limits.body_bytes + ENVELOPE,  # some clients put the text into the query
        )  # fmt: skip
        threading.Thread(target=identifier, daemon=True).start()  # half a second that the first "auto" need not wait
        print(
            f"{address(door)}/ is the page; LibreTranslate's API is there, and OpenAI's under /v1; Ctrl-C stops"
            + "".join(f"; {one.name} runs by {said}" for one in service.models.served if (said := one.engine)),
            flush=True,
        )
        with stopped_by_signals(), reloaded_by_signal(service, again):
            uvicorn.Server(config).run(sockets=[door])
    print(summary(service), flush=True)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    if not 0 <= port < 2**16:  # getaddrinfo would take 70000 for 4464
        raise InputError(f"there is no port {port}; give one from 1 to 65535, or 0 for a free one")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.socket(family, kind, protocol)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(place)
        door.listen(1024)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host} port {port}: {why}; give another --host or --port") from None
    with door:
        yield door


def address(door: socket.socket) -> str:
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """uvicorn raises a signal again once it has stopped; by then there is nothing left to end."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reloaded_by_signal(service: Service, again: Again | None) -> Iterator[None]:
    """While a new model is opened, and while the last requests of the old one are answered, nobody waits for it."""
    if again is None or not hasattr(signal, "SIGHUP"):
        yield
        return
    opening: list[threading.Thread] = []

    def begin(*_: object) -> None:
        opening.append(threading.Thread(target=reload, args=(service, again)))
        opening[-1].start()

    before = signal.signal(signal.SIGHUP, begin)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        for one in opening:
            one.join()  # cut off while torch reads a model, it would take the whole process with it: an abort


def reload(service: Service, again: Again) -> None:
    """What cannot be opened is told, and the old models stay."""
    try:
        models, glossaries = again()
    except (InputError, OSError, ValueError, RuntimeError) as error:
        print(f"not reloaded, the old models go on: {error}", file=sys.stderr, flush=True)
        return
    for _ in service.replace(models, glossaries):
        print(f"reloaded: {', '.join(one.name for one in models.served)}", flush=True)


def summary(service: Service) -> str:
    total = service.metrics.total
    met, used = total("qkv_glossary_terms_total"), total("qkv_glossary_terms_total", used="yes")
    sentences, turns = total("qkv_batch_sentences_sum"), total("qkv_batch_sentences_count")
    batches = f"{total('qkv_requests_total'):.0f} requests, {sentences:.0f} sentences in {turns:.0f} batches"
    written = f"; {tokens:.0f} tokens were written" if (tokens := total("qkv_tokens_total")) else ""
    return f"stopped after {batches}{written}" + (f"; {used:.0f} of {met:.0f} glossary terms were used" if met else "")
