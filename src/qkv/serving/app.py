"""The application: every route behind one door that counts, checks the key, and has a sentence for what goes wrong."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
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
from qkv.errors import InputError
from qkv.serving.api import ROUTES as API
from qkv.serving.libre import ROUTES as LIBRE
from qkv.serving.limits import Refusal
from qkv.serving.openapi import describe
from qkv.serving.reading import read
from qkv.serving.service import COOKIE, Endpoint, Service, Visit, bearer
from qkv.serving.static import ROUTES as STATIC

ROUTES: list[Endpoint] = [*LIBRE, *API, *STATIC]
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
CORS = Middleware(
    CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["Authorization", "Content-Type"],
    max_age=86400,
)  # fmt: skip
log = logging.getLogger("qkv.serving")


def make_app(service: Service) -> Starlette:
    """The ASGI application of a service, which whoever made it closes."""
    routes = [Route(entry.path, endpoint(service, entry), methods=[entry.method]) for entry in ROUTES]
    app = Starlette(routes=routes, middleware=[CORS], exception_handlers={HTTPException: no_route})
    app.router.redirect_slashes = False
    app.state.description = describe(ROUTES, __version__, [served.name for served in service.models.served])
    return app


def endpoint(service: Service, entry: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        service.active += 1
        try:
            with service.metrics.seconds.labels(entry.path).time():
                response = await answered(service, entry, request)
        finally:
            service.active -= 1
        response.headers.update(HEADERS)
        service.metrics.requests.labels(entry.path, str(response.status_code)).inc()
        return response

    return answer


async def answered(service: Service, entry: Endpoint, request: Request) -> Response:
    """The answer, or a sentence; never a traceback."""
    client = request.client.host if request.client else ""
    try:
        service.admit(client)
        if bearer(request):  # it counts, whatever the body says
            service.check_key(request)
        with service.arriving(client):
            values = await read(request, service.limits)
        service.check_key(request, values.get("api_key"))
        asked = Visit(service, request, values, client)
        watching = asyncio.create_task(asked.watch())
        try:
            answer = entry.handle(asked) if iscoroutinefunction(entry.handle) else asked.thread(entry.handle, asked)
            return remembering(service, request, await answer)
        finally:
            watching.cancel()
            asked.gone.set()  # what was asked for beside a text that is refused
    except Refusal as refusal:
        headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else None
        return JSONResponse({"error": refusal.sentence}, refusal.status, headers)
    except InputError as error:
        return JSONResponse({"error": str(error)}, 400)
    except Exception:
        log.exception("an answer to %s %s failed", entry.method, entry.path)
        return JSONResponse({"error": "something went wrong inside the server; its log says what"}, 500)


def remembering(service: Service, request: Request, found: Any) -> Response:
    """A browser that opens the page with ?api_key=... keeps the key for the page's own files and requests."""
    response = found if isinstance(found, Response) else JSONResponse(found)
    if service.key and request.url.path == "/" and request.query_params.get("api_key"):
        response.set_cookie(COOKIE, service.key, httponly=True, samesite="strict")
    return response


async def no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {
        404: "there is nothing at this address; GET /spec lists what there is",
        405: f"{request.method} is not for this address; GET /spec says which method is",
    }.get(status, "the request cannot be answered")
    return JSONResponse({"error": sentence}, status, HEADERS | dict(getattr(error, "headers", None) or {}))
