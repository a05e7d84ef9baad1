"""Answers that are told while they are made, as server-sent events; and what is said of whatever goes wrong."""

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from qkv.errors import InputError
from qkv.serving.limits import Refusal, told
from qkv.serving.service import Visit

GIVES = "application/json text/event-stream"  # of a route that streams where it is asked to
log = logging.getLogger("qkv.serving")


class Events(StreamingResponse):
    """A stream of events; `leaving` is what ends with it."""

    def __init__(self, content: AsyncIterator[str]) -> None:
        super().__init__(content, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self.leaving = ExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.leaving:
            await super().__call__(scope, receive, send)


def stream(asked: Visit, answers: Iterator[Any], last: str = "") -> Events:
    """An event for each answer, then `last`; whatever goes wrong before the first is refused as if nothing streamed."""
    return Events(lines(asked, chain([next(answers)], answers), last))


async def lines(asked: Visit, answers: Iterator[Any], last: str) -> AsyncIterator[str]:
    path = asked.request.url.path
    try:
        while (answer := await asked.thread(next, answers, None)) is not None:
            yield event(json.dumps(answer, ensure_ascii=False))
    except Exception as error:
        status, sentence, _ = refusal_of(error, path)
        yield event(json.dumps(told(path, status, sentence), ensure_ascii=False))
    if last:
        yield event(last)


def event(data: str) -> str:
    return f"data: {data}\n\n"


def refusal_of(error: Exception, where: str) -> tuple[int, str, int]:
    """The status and the sentence for an error, and when to come back; what nobody foresaw is logged."""
    if isinstance(error, Refusal):
        return error.status, error.sentence, error.retry_after
    if isinstance(error, InputError):
        return 400, str(error), 0
    log.error("an answer to %s failed", where, exc_info=error)
    return 500, "something went wrong inside the server; its log says what", 0
