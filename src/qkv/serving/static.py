"""The files of the page, the description of the routes, and the figures."""

import mimetypes
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest
from starlette.responses import Response

from qkv.look.single import PAGE
from qkv.serving.reference import reference
from qkv.serving.service import ABOUT_PAGE, Endpoint, Visit

TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}  # on any OS


def page_route(address: str, path: Path) -> Endpoint:
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"

    async def file(_: Visit) -> Response:
        return Response(path.read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"})

    return Endpoint("GET", address, file, ABOUT_PAGE, gives=kind, guard="none")


async def metrics(asked: Visit) -> Response:
    return Response(generate_latest(asked.service.metrics.registry), media_type="text/plain; version=0.0.4")


async def description(asked: Visit) -> Any:
    return asked.request.app.state.describe()


async def documentation(asked: Visit) -> Response:
    page = reference(asked.request.app.state.describe(), str(asked.request.base_url))
    return Response(page, media_type="text/html")


ROUTES = [
    Endpoint("GET", "/metrics", metrics, "Figures for Prometheus.", gives="text/plain", guard="metrics"),
    Endpoint("GET", "/docs", documentation, "This description, as a page.", gives="text/html"),
    Endpoint("GET", "/spec", description, "This description."),
    Endpoint("GET", "/api/openapi.json", description, "This description."),
    # A route for every file of the page: nothing else can be fetched, whatever an address says.
    *(page_route(f"/{path.name}", path) for path in sorted(PAGE.iterdir())),
    page_route("/", PAGE / "index.html"),
]
