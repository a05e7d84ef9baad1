"""Settings as a TOML file: complete, readable, and a recipe that `--recipe` takes."""

import json
from typing import Any

from qkv.config import Tree, to_tree


def to_toml(settings: Any, files: dict[str, str]) -> str:
    """All settings, and the digests of the files that were read."""
    return "# The complete settings of this run; `qkv train --recipe` takes this file.\n" + write(
        {**to_tree(settings), "files": files}
    )


def write(tree: Tree, name: str = "") -> str:
    plain = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    lines = [f"{quoted(key)} = {value_of(value)}\n" for key, value in plain.items()]
    header = f"\n[{name}]\n" if name and lines else ""
    tables = [
        write(value, f"{name}.{quoted(key)}" if name else quoted(key))
        for key, value in tree.items()
        if isinstance(value, dict)
    ]
    return header + "".join(lines) + "".join(tables)


def quoted(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else value_of(key)


def value_of(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(value_of(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value) if value % 1 or "e" in repr(value) else f"{value:.1f}"
    # Strings, whole numbers, true and false are spelled as in JSON; only TOML wants DEL to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
