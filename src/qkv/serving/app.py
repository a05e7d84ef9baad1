"""The application: every route behind one door that counts, checks the key, and has a sentence for what goes wrong."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from qkv import __version__
from qkv.serving.answers import ROUTES as ANSWERS
from qkv.serving.api import ROUTES as API
from qkv.serving.connections import check_site, cors
from qkv.serving.events import Events, refusal_of
from qkv.serving.libre import ROUTES as LIBRE
from qkv.serving.limits import told
from qkv.serving.openai import ROUTES as OPENAI
from qkv.serving.openapi import describe
from qkv.serving.reading import read
from qkv.serving.service import COOKIE, Endpoint, Service, Visit, bearer
from qkv.serving.static import ROUTES as STATIC
from qkv.serving.writing import ROUTES as WRITING

ROUTES: list[Endpoint] = [*LIBRE, *API, *ANSWERS, *WRITING, *OPENAI, *STATIC]
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def make_app(service: Service) -> Starlette:
    """The ASGI application of a service, which whoever made it closes."""
    routes = [Route(entry.path, endpoint(service, entry), methods=[entry.method]) for entry in ROUTES]
    readable = Middleware(CORSMiddleware, **cors(service.origins, service.key))
    app = Starlette(
        routes=routes, middleware=[readable], exception_handlers={HTTPException: partial(no_route, service)}
    )
    app.router.redirect_slashes = False
    described = cache(partial(describe, ROUTES, __version__))
    app.state.describe = lambda: described(tuple(one.name for one in service.models.served))  # which may be replaced
    return app


def endpoint(service: Service, entry: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        with ExitStack() as leaving:
            started, told = time.monotonic(), [500]
            leaving.callback(lambda: service.tell(request.method, entry.path, told[0], time.monotonic() - started))
            leaving.enter_context(service.metrics.seconds.labels(entry.path).time())
            leaving.enter_context(service.answering())
            response = await answered(service, entry, request, leaving)
            response.headers.update(HEADERS)
            told[0] = response.status_code
            service.metrics.requests.labels(entry.path, str(response.status_code)).inc()
            if isinstance(response, Events):
                response.leaving = leaving.pop_all()  # when all is told
        return response

    return answer


async def answered(service: Service, entry: Endpoint, request: Request, leaving: ExitStack) -> Response:
    """The answer, or a sentence; never a traceback. `leaving` ends what watches over it."""
    client = request.client.host if request.client else ""
    try:
        check_site(request, service.key, service.origins, is_local=service.is_local)
        service.admit(client)
        if bearer(request):  # it counts, whatever the body says
            service.check_key(request, guard=entry.guard)
        with service.arriving(client):
            values = await read(request, service.limits)
        service.check_key(request, values.get("api_key"), entry.guard)
        asked = Visit(service, request, values, client)
        leaving.callback(asked.gone.set)  # what was asked for beside a text that is refused
        leaving.callback(asyncio.create_task(asked.watch()).cancel)
        answer = entry.handle(asked) if iscoroutinefunction(entry.handle) else asked.thread(entry.handle, asked)
        return remembering(service, request, await answer)
    except Exception as error:
        status, sentence, wait = refusal_of(error, f"{entry.method} {entry.path}")
        headers = {"Retry-After": str(wait)} if wait else None
        return JSONResponse(told(entry.path, status, sentence), status, headers)


def remembering(service: Service, request: Request, found: Any) -> Response:
    """A browser that opens the page with ?api_key=... keeps the key for the page's own files and requests."""
    response = found if isinstance(found, Response) else JSONResponse(found)
    if service.key and request.url.path == "/" and request.query_params.get("api_key"):
        response.set_cookie(COOKIE, service.key, httponly=True, samesite="strict")
    return response


async def no_route(service: Service, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    service.tell(request.method, "-", status, 0.0)  # what was asked for may be anything
    sentence = {
        404: "there is nothing at this address; GET /spec lists what there is",
        405: f"{request.method} is not for this address; GET /spec says which method is",
    }.get(status, "the request cannot be answered")
    return JSONResponse(
        told(request.url.path, status, sentence), status, HEADERS | dict(getattr(error, "headers", None) or {})
    )
