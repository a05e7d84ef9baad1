"""What a connection may not do before it is answered: wait for ever, be one too many, be of another site's page."""

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from qkv.serving.limits import Limits, Refusal

LOCAL = "localhost"


def protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's own, which by itself waits for the end of headers as long as a client likes."""

    class Bounded(H11Protocol):
        """Closes a connection whose headers have not ended in their time, or whose answer nobody reads in its time, and
        one past the limit at once."""

        late: asyncio.TimerHandle | None = None
        unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.close()
            else:
                self.watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.watch(is_over=True)
            self.resume_writing()

        def pause_writing(self) -> None:
            """A client that asks and does not read the answer has as long as the answer may take."""
            super().pause_writing()
            self.unread = self.loop.call_later(limits.seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.unread is not None:
                self.unread.cancel()

        def end(self) -> None:
            """What is still to be sent has its time, too."""
            self.transport.close()
            self.unread = self.loop.call_later(limits.seconds, self.transport.abort)

        def watch(self, *, is_over: bool = False) -> None:
            """Time runs while there is no request to answer."""
            is_waiting = not is_over and (self.cycle is None or self.cycle.response_complete)
            if is_waiting and self.late is None:
                self.late = self.loop.call_later(limits.header_seconds, self.end)
            elif not is_waiting and self.late is not None:
                self.late.cancel()
                self.late = None

    return Bounded


def check_site(request: Request, key: str, origins: Sequence[str], *, is_local: bool) -> None:
    """Refuse what another site's page asks of a server that has no key: a browser would let it use the models.

    A page of this server has its own address as Origin. A name that leads to this machine though it is not its own
    (DNS rebinding) is told by Host, on a server that only this machine can reach.
    """
    if key or "*" in origins:
        return
    host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
    if origin and urlsplit(origin).netloc != host and origin not in origins:
        raise Refusal(403, f"pages of {origin} may not use this server; its operator allows them by --allow-origin")
    known = [LOCAL, *(urlsplit(one).hostname for one in origins)]
    name = urlsplit(f"//{host}").hostname or ""
    if is_local and host and name not in known and not is_address(name):
        raise Refusal(403, f"this server is not {name!r}; its operator allows the name by --allow-origin http://{host}")


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def cors(origins: Sequence[str], key: str) -> dict[str, Any]:
    """For browsers: which pages may read the answers. With a key, all that know it."""
    allowed = ["*"] if key else [*origins]
    return {"allow_origins": allowed, "allow_methods": ["GET", "POST"], "max_age": 86400,
            "allow_headers": ["Authorization", "Content-Type"]}  # fmt: skip
