"""The description of all routes in OpenAPI 3.1, made from the one table of them and the dataclasses of their bodies."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from qkv.serving.service import ABOUT_PAGE, Endpoint

ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
OPENAI_ERROR = {"type": "object", "properties": {"error": {"type": "object", "required": ["message", "type"]}},
                "required": ["error"]}  # fmt: skip
REFUSED = {
    "400": "The request cannot be answered as it is; the sentence says why.",
    "401": "This server needs an API key.",
    "403": "The API key is wrong, or this is switched off.",
    "404": "There is no such model or file.",
    "408": "The request took too long to arrive.",
    "413": "The request or the file is too large.",
    "429": "This client asks too much; Retry-After says when to come back.",
    "503": "The server is full, or stopping; Retry-After says when to come back.",
}
TEXT = {"type": "string"}
FORM = {
    "type": "object",
    "properties": {"file": TEXT | {"format": "binary"}, "source": TEXT, "target": TEXT, "api_key": TEXT},
    "required": ["file", "source", "target"],
}
KEYS = {
    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


def describe(routes: Sequence[Endpoint], version: str, models: Sequence[str]) -> dict[str, Any]:
    """The whole document, which names the server's `models`; GET /api/openapi.json and GET /spec give it."""
    schemas: dict[str, Any] = {"Error": ERROR, "OpenAIError": OPENAI_ERROR}
    paths: dict[str, Any] = {}
    for entry in (entry for entry in routes if entry.about != ABOUT_PAGE):
        paths.setdefault(entry.path, {})[entry.method.lower()] = operation(entry, schemas, models)
    return {
        "openapi": "3.1.0",
        "info": {"title": "qkv", "version": version, "description": "LibreTranslate's API, OpenAI's, and ours."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": KEYS},
        "security": [{}, *({name: []} for name in KEYS)],
    }


def operation(entry: Endpoint, schemas: dict[str, Any], models: Sequence[str]) -> dict[str, Any]:
    good = {"description": "The answer.", "content": {kind: {"schema": {}} for kind in entry.gives.split()}}
    error = "OpenAIError" if entry.path.startswith("/v1/") else "Error"
    bad = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{error}"}}}}
    found: dict[str, Any] = {
        "summary": entry.about,
        "responses": {"200": good} | {status: {"description": why} | bad for status, why in REFUSED.items()},
    }
    names = [part[1:-1] for part in entry.path.split("/") if part.startswith("{")]
    if names:
        known = {"enum": list(models)} if entry.path.startswith(("/api/models/", "/v1/models/")) else {"minLength": 1}
        place = {"in": "path", "required": True, "schema": TEXT | known}
        found["parameters"] = [{"name": name} | place for name in names]
    if entry.path == "/translate_file":
        found["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}
    elif entry.asks:
        schema = TypeAdapter(entry.asks).json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[entry.asks.__name__] = schema
        ref = {"schema": {"$ref": f"#/components/schemas/{entry.asks.__name__}"}}
        forms = (
            [] if entry.path.startswith(("/api/", "/v1/")) else ["application/x-www-form-urlencoded"]
        )  # LibreTranslate's
        found["requestBody"] = {"required": True, "content": dict.fromkeys(["application/json", *forms], ref)}
    return found
