"""What a person gives to be answered, as the texts that a task asks for."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from qkv.errors import InputError
from qkv.text.records import field_at

Names = Mapping[str, Sequence[str]]  # each text, and the names that it goes by in a dict


def fields(given: Any, names: Names, place: str) -> list[str]:
    """The texts of a question: out of a dict by name, a tuple in their order, or a line with tabs between them or of
    JSON. One alone is the line itself."""
    given = parsed(given, len(names))
    if isinstance(given, Mapping):
        return [field_at(dict(given), several, place, shape(names)) for several in names.values()]
    if isinstance(given, str):
        given = given.split("\t") if len(names) > 1 else [given]
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise InputError(f"{place} is {given!r:.60}; {shape(names)}")
    if len(given) != len(names):
        count = "1 text" if len(given) == 1 else f"{len(given)} texts"
        raise InputError(f"{place} has {count} where {len(names)} were expected; {shape(names)}")
    return list(given)


def parsed(given: Any, most: int = 2) -> Any:
    """A line of JSON as the object that it is; anything else, and the one text of a question, as it is given."""
    if isinstance(given, str) and most > 1 and given.lstrip().startswith("{"):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def shape(names: Names) -> str:
    """What to give instead, for people."""
    said = " and ".join(names)
    keys = ", ".join(f'"{several[0]}": "..."' for several in names.values())
    return f"give {said}" + (f" with a tab between them, or {{{keys}}}" if len(names) > 1 else f", or {{{keys}}}")
