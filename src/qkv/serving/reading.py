"""What a request says: its fields from JSON, a form or the query, whichever a client uses; bounded and clean."""

import json
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import anyio
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from qkv.serving.limits import ENVELOPE, Limits, Refusal

FIELDS = 100  # of a form
FILES = "/translate_file"  # the only address to which a file may be sent, which is larger
NO_JSON = 'Invalid JSON format: send an object such as {"q": "...", "target": "de"}'


async def read(request: Request, limits: Limits) -> dict[str, Any]:
    """The fields of a request; those of the body win over those of the query."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_file = request.url.path == FILES
    try:
        with anyio.fail_after(limits.seconds):
            body = await bounded(request, limits.file_bytes + ENVELOPE if is_file else limits.body_bytes)
    except TimeoutError:
        raise Refusal(408, f"the request took longer than {limits.seconds} seconds to arrive; send it again") from None
    except ClientDisconnect:
        raise Refusal(400, "the request ended before its end; send it again") from None
    values: dict[str, Any] = dict(request.query_params)
    if body and kind == "multipart/form-data":
        values |= await parts(request, body)
    elif body and kind == "application/x-www-form-urlencoded":
        values |= form(body)
    elif body and (kind == "application/json" or kind.endswith("+json")):
        values |= json_object(body)
    try:
        return {name: clean(value) for name, value in values.items()}
    except RecursionError:  # lists in lists in lists
        raise Refusal(400, NO_JSON) from None


async def bounded(request: Request, limit: int) -> bytes:
    sentence = f"the request has more than {limit} bytes; send less at once"
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limit:
        raise Refusal(413, sentence)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refusal(413, sentence)
    return bytes(body)


def form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=FIELDS)
    except ValueError:
        raise Refusal(400, "Invalid request: the form cannot be read; send it as name=value&name=value") from None
    return {name: line_feeds(value) for name, value in pairs}


async def parts(request: Request, body: bytes) -> dict[str, Any]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        found = await Request(request.scope, receive).form(max_files=1, max_fields=FIELDS, max_part_size=len(body))
    except (HTTPException, MultiPartException, KeyError, ValueError):  # the first is starlette's own 400
        raise Refusal(400, "Invalid request: the multipart form cannot be read; send a file and its fields") from None
    return {name: value if isinstance(value, UploadFile) else line_feeds(value) for name, value in found.items()}


def json_object(body: bytes) -> dict[str, Any]:
    data = None
    with suppress(ValueError, RecursionError):  # ValueError: no JSON, no Unicode, or a number of thousands of digits
        data = json.loads(body)
    if not isinstance(data, dict):
        raise Refusal(400, NO_JSON)
    return data


def line_feeds(text: str) -> str:
    """A browser sends CR LF for each new line of a form."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def clean(value: Any) -> Any:
    """Halves of surrogate pairs joined, and lone ones replaced: no UTF-8 can hold them."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [clean(one) for one in value]
    if isinstance(value, dict):
        return {clean(name): clean(one) for name, one in value.items()}
    return value
