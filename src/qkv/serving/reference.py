"""The description of all routes as a page for people: GET /docs, with nothing that comes from elsewhere."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

GROUPS = {  # by how an address begins; the first that fits
    "/api/": "Our own API",
    "/v1/": "OpenAI's API",
    "": "LibreTranslate's API, and the server itself",
}
KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null",
         "object": "table"}  # fmt: skip
REQUIRED = "needed"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>qkv – routes</title>
<link rel="icon" type="image/svg+xml" href="icon.svg">
<link rel="stylesheet" href="style.css">
</head>
<body>
<div id="page" class="reference">
<header><div class="brand"><h1>qkv {version}</h1><p>{about}</p></div></header>
<main>
<p class="faint">The same as OpenAPI: <a href="spec">/spec</a>. Where the server has a key, send it as
<code>api_key</code> or as <code>Authorization: Bearer KEY</code>. What goes wrong is one sentence,
<code>{{"error": "..."}}</code>.</p>
{groups}
</main>
</div>
</body>
</html>
"""


def reference(description: Mapping[str, Any], address: str) -> str:
    """The page of an OpenAPI document; its examples ask the server at `address`."""
    schemas = description["components"]["schemas"]
    groups: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    for path, methods in description["paths"].items():
        title = next(title for start, title in GROUPS.items() if path.startswith(start))
        groups[title] += [article(method, path, said, schemas, address) for method, said in methods.items()]
    shown = "\n".join(f"<section><h2>{escape(title)}</h2>\n" + "\n".join(some) + "</section>"
                      for title, some in groups.items())  # fmt: skip
    info = description["info"]
    return PAGE.format(version=escape(info["version"]), about=escape(info["description"]), groups=shown)


def article(
    method: str, path: str, said: Mapping[str, Any], schemas: Mapping[str, Any], address: str
) -> str:  # fmt: skip
    """One route: what it is for, its fields, and a command that asks it."""
    body: dict[str, Any] = said.get("requestBody", {}).get("content", {})
    schema: dict[str, Any] = next(iter(body.values()), {"schema": {}})["schema"]
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    fields = {name: one for name, one in schema.get("properties", {}).items() if name != "api_key"}
    needed = schema.get("required", [])
    rows = [
        (name, kind(one, schemas), REQUIRED if name in needed else json.dumps(one.get("default")))
        for name, one in fields.items()
    ]
    rows += [(one["name"], kind(one["schema"], schemas), REQUIRED) for one in said.get("parameters", [])]
    table = "".join(f"<tr>{''.join(f'<td><code>{escape(cell)}</code></td>' for cell in row)}</tr>" for row in rows)
    heads = "".join(f"<th>{title}</th>" for title in ("field", "kind", "default"))
    described = f"<p>{escape(schema['description'])}</p>" if schema.get("description") else ""
    command = example(method, path, fields, needed, address, is_file="multipart/form-data" in body)
    return (
        f'<article class="card"><h3><code>{method.upper()} {escape(path)}</code></h3><p>{escape(said["summary"])}</p>'
        + described
        + (f"<table><thead><tr>{heads}</tr></thead><tbody>{table}</tbody></table>" if rows else "")
        + f"<pre>{escape(command)}</pre></article>"
    )


def kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The type of a field, in words."""
    if "$ref" in schema:
        inside = schemas[schema["$ref"].rpartition("/")[2]].get("properties", {})
        return f"table of {', '.join(inside)}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(one, schemas) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}), schemas)}"
    return "file" if schema.get("format") == "binary" else KINDS.get(schema.get("type", ""), "anything")


VALUES = {"q": "Two dogs play.", "s": "Zwei Hunde spielen.", "source": "en", "target": "de", "prompt": "Once",
          "input": "Two dogs play.", "model": "NAME", "file": "@letter.docx"}  # fmt: skip


def example(
    method: str, path: str, fields: Mapping[str, Any], needed: list[str], address: str, *, is_file: bool
) -> str:  # fmt: skip
    """A command that asks for it with the fields that are needed, in any shell of Unix."""
    url = address.rstrip("/") + path.replace("{name}", "NAME")
    given = {name: VALUES.get(name, "...") for name in fields if name in needed or (name == "q" and not needed)}
    if is_file:
        return " ".join(["curl", *(f"-F {name}={value}" for name, value in given.items()), url])
    if method == "get":
        return f"curl {url}"
    return f"curl {url} -H 'Content-Type: application/json' -d '{json.dumps(given)}'"
