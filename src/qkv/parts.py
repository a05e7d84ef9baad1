"""Parts of one's own: names in the tables for what a user has written, in a file that the user imports."""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from qkv.errors import InputError, nearest

# What `qkv list` calls each table, and where it is; the first is the one that `qkv list` reads.
TABLES: dict[str, list[tuple[str, str]]] = {
    "tasks": [("qkv.tasks", "TASKS"), ("qkv.tasks", "USES")],
    "models": [("qkv.models", "MODELS")],
    "objectives": [("qkv.objectives", "OBJECTIVES")],
    "heads": [("qkv.layers", "HEADS")],
    "positions": [("qkv.positions", "POSITIONS")],
    "attention": [("qkv.attention", "ATTENTIONS")],
    "schedules": [("qkv.training", "SCHEDULES")],
    "averages": [("qkv.training.averaging", "AVERAGES")],
}


class Own(NamedTuple):
    """A part that a user has named, and the file that did."""

    part: Any
    file: str


OWN: dict[tuple[str, str], Own] = {}  # by table and name
IMPORTED: list[Path] = []  # files of parts, as --import named them; processes that this one starts import them too


def register(table: str, name: str, part: Callable[..., Any]) -> None:
    """Give a part of your own a name, by which a recipe, a flag or a setting chooses it like those of qkv.

    >>> qkv.register("attention", "strided", Strided)
    >>> qkv.train("pairs.tmx", source="en", target="de", model={"attention": "strided(stride=4)"}, out="model")

    `table` is one that `qkv list` prints. A model folder remembers the name and the file that it came from, and runs
    nothing: register it again before `qkv.load`, or name the file on the command line: `qkv translate --import FILE`.
    """
    if table not in TABLES:
        raise InputError(f"there is no table {table!r} that takes parts; {nearest(str(table), TABLES)}")
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"{name!r:.60} is no name for a part; give letters, digits and _, for example 'strided'")
    if not callable(part):
        raise InputError(f"{part!r:.60} is no part, since it cannot be called; give a class or a function")
    tables = [getattr(import_module(module), kind) for module, kind in TABLES[table]]
    if (table, name) not in OWN and name in tables[0]:
        raise InputError(f"{name!r} is a name that qkv has in {table} already; give your part another")
    for one in tables:
        one[name] = part
    OWN[table, name] = Own(part, file_of(part))


def forget() -> None:
    """The tables as they are without any part of a user's."""
    for table, name in OWN:
        for module, kind in TABLES[table]:
            getattr(import_module(module), kind).pop(name, None)
    OWN.clear()
    IMPORTED.clear()


def file_of(part: Any) -> str:
    """The name of the file that a part is written in, if it is in one."""
    try:
        return Path(inspect.getfile(part)).name
    except (OSError, TypeError):
        return ""


def of_table(module: str, name: str) -> dict[str, Any]:
    """The parts that users have added to a table."""
    return {key: own.part for (table, key), own in OWN.items() if TABLES[table][0] == (module, name)}


def import_file(path: Path) -> None:
    """Run a file of parts that a user has named; whatever is wrong in it is one sentence."""
    if path.suffix != ".py" or not path.is_file():
        raise InputError(f"--import {path}: there is no such file of Python; give the name of one, my_parts.py")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except InputError as error:
        raise InputError(f"--import {path}: {error}") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
        place = f" line {lines[-1]}" if lines else ""
        raise InputError(f"--import {path}{place}: {type(error).__name__}: {error}; mend the file") from None
    IMPORTED.append(path.resolve())


def needed_by(settings: Any) -> dict[str, str]:
    """The parts of users that some settings name, each with its file: {"attention strided": "my_parts.py"}."""
    said = " ".join(texts(settings))
    return {
        f"{table} {name}": own.file for (table, name), own in OWN.items() if re.search(rf"\b{re.escape(name)}\b", said)
    }


def texts(tree: Any) -> list[str]:
    """All texts among some settings."""
    if isinstance(tree, Mapping):
        return [text for value in tree.values() for text in texts(value)]
    if isinstance(tree, list | tuple):
        return [text for value in tree for text in texts(value)]
    return [tree] if isinstance(tree, str) else []


def check_needed(needed: Any, where: str) -> None:
    """Refuse what was made with parts that nobody has registered here, and say what to import."""
    known = needed.items() if isinstance(needed, Mapping) else ()
    for what, file in known:
        table, _, name = str(what).partition(" ")
        if table in TABLES and (table, name) not in OWN:
            file = str(file) or "FILE.py"
            raise InputError(
                f"{where} was made with a part of somebody's own, {name!r} of {table}; give --import {file}, or in "
                f"Python import {Path(file).stem} before qkv.load"
            )
