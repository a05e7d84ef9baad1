"""The files of the page, the description of the routes, and the figures."""

import mimetypes
from pathlib import Path

from starlette.responses import JSONResponse, Response

from qkv.look.single import PAGE
from qkv.serving.service import ABOUT_PAGE, Asked, Entry, Handle

TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}  # on any OS


def page_routes() -> list[Entry]:
    """A route for every file of the page: nothing else can be fetched, whatever an address says."""
    files = {f"/{path.name}": path for path in sorted(PAGE.iterdir())}
    files["/"] = files["/index.html"]
    return [Entry("GET", address, file_of(path), ABOUT_PAGE, gives=type_of(path)) for address, path in files.items()]


def file_of(path: Path) -> Handle:
    async def file(_: Asked) -> Response:
        return Response(path.read_bytes(), media_type=type_of(path), headers={"Cache-Control": "no-cache"})

    return file


def type_of(path: Path) -> str:
    return TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"


async def metrics(asked: Asked) -> Response:
    return Response(asked.service.metrics.text(), media_type="text/plain; version=0.0.4")


async def description(asked: Asked) -> Response:
    return JSONResponse(asked.request.app.state.description)


ROUTES = [
    Entry("GET", "/metrics", metrics, "Figures for Prometheus.", gives="text/plain"),
    Entry("GET", "/spec", description, "This description."),
    Entry("GET", "/api/openapi.json", description, "This description."),
    *page_routes(),
]
