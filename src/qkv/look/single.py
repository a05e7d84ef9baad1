"""The page as one file: its modules, its style and a view's data inside, so that it opens anywhere with no server."""

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from qkv.errors import InputError

PAGE = Path(str(files("qkv"))) / "serving" / "page"  # the server's, too; of these files alone nothing needs a server
FIRST = "app.js"  # what the page runs; all other modules are reached from it
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
KNOWN = ("explain", "positions", "architecture", "curves")
NEEDED = ("text", "attention")
# No request can leave a file with this policy; what it draws and runs is inside it.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def single_file(view: Mapping[str, Any], extras: Mapping[str, Any] | None = None) -> str:
    """One HTML file with the pictures of a view; `extras` may add explain, positions, architecture and curves."""
    extras = dict(extras or {})
    if missing := [name for name in NEEDED if name not in view]:
        raise InputError(f"the view has no {' and no '.join(map(repr, missing))}; give one that qkv.look.view made")
    if unknown := sorted(set(extras) - set(KNOWN)):
        raise InputError(f"a page has no place for {', '.join(unknown)}; give any of {', '.join(KNOWN)}")
    code = "const modules = {};\n" + joined(FIRST, set())
    page, style = ((PAGE / name).read_text(encoding="utf-8") for name in ("index.html", "style.css"))
    for old, new in {
        '<link rel="icon" type="image/svg+xml" href="icon.svg">': (
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        ),
        "<title>qkv</title>": f"<title>{escape(str(view['text']))} – qkv</title>",
        '<link rel="stylesheet" href="style.css">': f"<style>\n{style}</style>",
        'id="data">null<': f'id="data">{embeddable({"view": view, **extras})}<',
        f'<script type="module" src="{FIRST}"></script>': f'<script type="module">\n{code}</script>',
    }.items():
        before, found, after = page.partition(old)
        if not found:
            raise RuntimeError(f"index.html lacks {old!r}, which a page in one file replaces")
        page = before + new + after
    return page


def embeddable(data: Any) -> str:
    """JSON that no HTML parser can read anything into: with no <, nothing closes its element or opens a comment."""
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise InputError("the view has numbers that JSON lacks (infinite, or none); give null for them") from None
    return text.replace("<", "\\u003c").encode("utf-8", "replace").decode("utf-8")


def joined(name: str, seen: set[str]) -> str:
    """A module after all that it needs and that was not `seen`, each in a scope of its own."""
    seen.add(name)
    code = (PAGE / name).read_text(encoding="utf-8")
    needed = "".join(joined(other, seen) for _, other in IMPORT.findall(code) if other not in seen)
    given = ", ".join(found for _, found in EXPORT.findall(code))
    body = EXPORT.sub(r"\1 \2", IMPORT.sub(r'const \1 = modules["\2"];\n', code))
    return f'{needed}modules["{name}"] = (() => {{\n{body}return {{ {given} }};\n}})();\n'
