"""Settings: frozen, validated dataclasses <-> TOML, JSON and flags; and parts chosen by a name in a text."""

import ast
import dataclasses
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from qkv.errors import InputError, nearest
from qkv.files import read_text

T = TypeVar("T")
Tree = dict[str, Any]
ANY = 10**9  # what a whole number of the settings may be at most, unless it is one of these
AT_MOST = {
    "accumulate": 2**16, "batch_tokens": 2**24, "d_ff": 2**18, "d_k": 2**16, "d_model": 2**16, "decoder_layers": 1000,
    "encoder_layers": 1000, "keep": 10**6, "layers": 1000, "max_length": 2**20, "n_heads": 2**12, "threads": 2**10,
    "vocab_size": 10**7, "seed": 2**63 - 1,
}  # fmt: skip


BYTES, DEEP = 2**20, 100  # of a file of settings: its size, and the parts of a dotted name


def setting(default: Any, about: str) -> Any:
    """A field of a settings dataclass, with the sentence that `--help` shows for it."""
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata={"about": about})
    return dataclasses.field(default=default, metadata={"about": about})


def from_tree(cls: type[T], tree: Mapping[str, Any], where: str = "settings", inside: str = "") -> T:
    """A settings dataclass from plain data. Unknown keys and wrong types are refused by name, after `inside`."""
    if not isinstance(tree, Mapping):
        raise InputError(f"{where}: a table of settings was expected, not {tree!r}")
    check_keys(cls, tree, where, inside)
    check_numbers(tree, where, inside)
    return _validated(cls, tree, where, inside)


def check_numbers(tree: Mapping[str, Any], where: str, inside: str = "") -> None:
    """Refuse numbers that no machine could serve, before anything is made of them."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            check_numbers(value, where, f"{inside}{key}.")
        elif isinstance(value, int) and abs(value) > (most := AT_MOST.get(key, ANY)):
            given = f"{value:,}" if abs(value) < 10**18 else "far more"
            raise InputError(f"{where}: {inside}{key} must be at most {most:,}, not {given}")


def check_types(cls: type[Any], tree: Mapping[str, Any], where: str, inside: str = "") -> None:
    """Refuse a value of a wrong type, each key by itself: those that are not given may be chosen later."""
    hints = get_type_hints(cls)
    check_numbers(tree, where, inside)
    for key, value in tree.items():
        if not dataclasses.is_dataclass(hints[key]):  # a table of its own
            _validated(hints[key], value, where, f"{inside}{key}.")


@cache
def _adapter(kind: Any) -> Any:
    """What checks values of a type; made once, which takes longer than checking."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _validated(kind: Any, value: Any, where: str, inside: str) -> Any:
    from pydantic import ValidationError  # here: a tenth of a second that many commands need not wait

    try:
        return _adapter(kind).validate_json(json.dumps(value, default=str), strict=True)  # TOML has dates, JSON none
    except ValidationError as error:
        first = error.errors()[0]
        key = f"{inside}{'.'.join(str(part) for part in first['loc'])}".removesuffix(".")
        reason = first["msg"].removeprefix("Value error, ")
        given = "" if isinstance(first["input"], dict) else f" (given: {first['input']!r})"
        raise InputError(f"{where}: {key + ': ' if key else ''}{reason}{given}") from None


def check_keys(cls: type[Any], tree: Mapping[str, Any], where: str, inside: str = "", also: Iterable[str] = ()) -> None:
    """Refuse a key that is none of `cls`, nor one of `also`, naming the nearest one that is."""
    hints = get_type_hints(cls)
    names = [*(field.name for field in dataclasses.fields(cls)), *also]
    for key, value in tree.items():
        if key not in names:
            raise InputError(f"{where}: unknown key {inside + key!r}; {nearest(key, names)}")
        if dataclasses.is_dataclass(hints.get(key)) and isinstance(value, Mapping):
            check_keys(hints[key], value, where, f"{inside}{key}.")


def to_tree(settings: Any) -> Tree:
    """The plain data of a settings dataclass: what `from_tree` reads back."""
    return dataclasses.asdict(settings)


def merge(*trees: Mapping[str, Any]) -> Tree:
    """Later trees win, key by key, however deep."""
    merged: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            old = merged.get(key)
            merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged


def read_toml(path: Path) -> Tree:
    try:
        text = read_text(path, BYTES)
        if max(part.count(".") for part in re.split(r"[][{}=,\n]", text)) > DEEP:  # tomllib has no bound
            raise InputError(f"{path} has names of more than {DEEP} parts; no setting is nested so deep")
        return tomllib.loads(text)
    except InputError:
        raise
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from None


def parse_call(spec: str, table: Mapping[str, Callable[..., Any]] | None = None) -> tuple[str, dict[str, Any]]:
    """'local(radius=2)' -> ("local", {"radius": 2}); only literal arguments, nothing is evaluated.

    With the table that has the part, 'local(2)' is the same: what is given without a key are its first options."""
    try:
        call = ast.parse(spec, mode="eval").body
        if isinstance(call, ast.Name):
            return call.id, {}
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and (table is not None or not call.args):
            first = [ast.literal_eval(value) for value in call.args]
            given = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg}
            if len(given) == len(call.keywords):  # else one was given twice, or by **
                return call.func.id, {**_by_name(call.func.id, first, given, table or {}), **given}
    except InputError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    raise InputError(f"{spec[:80]!r} does not name a part; write name or name(key=value), for example 'sinusoidal'")


def _by_name(name: str, values: list[Any], given: Tree, table: Mapping[str, Callable[..., Any]]) -> Tree:
    """Values without a key, by the names of a part's options in their order."""
    if not values:
        return {}
    if name not in table:
        raise InputError(f"unknown name {name!r}; {nearest(name, table)}")
    names = list(_options(table[name]))
    if len(values) > len(names):
        takes = f"only {', '.join(names)}, so {len(values)} are too many" if names else "none"
        raise InputError(f"values without a key: {name!r} takes {takes}; write name(key=value)")
    named = dict(zip(names, values, strict=False))
    if twice := named.keys() & given.keys():
        raise InputError(f"{name!r} is given {min(twice)!r} twice, once without a key; give it once")
    return named


def _options(part: Callable[..., Any]) -> dict[str, Any]:
    """What a part can be given in a text, and of which type."""
    return {p.name: p.annotation for p in inspect.signature(part).parameters.values() if p.kind is p.KEYWORD_ONLY}


def split_calls(specs: str) -> list[str]:
    """'local(block=2), soft' -> ["local(block=2)", "soft"]: what each of several parts is called."""
    try:
        body = ast.parse(specs.strip(), mode="eval").body
        return [ast.unparse(one) for one in body.elts] if isinstance(body, ast.Tuple) and body.elts else [specs]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [specs]  # which `parse_call` refuses


def to_call(name: str, options: Mapping[str, Any]) -> str:
    """The text that `parse_call` reads back."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})" if options else name


def named(texts: Iterable[str], what: str) -> dict[str, str]:
    """["rte=pair", "stsb=similarity"] -> {"rte": "pair", "stsb": "similarity"}, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, rest = (part.strip() for part in text.partition("="))
        if not name.isidentifier() or not rest:
            raise InputError(f"{what} has {text!r}; write a name of letters, =, and what it is, for example rte=pair")
        if name in found:
            raise InputError(f"{what} names {name!r} twice; give each a name of its own")
        found[name] = rest
    return found


def build(table: Mapping[str, Callable[..., T]], spec: str, *args: Any) -> T:
    """build(POSITIONS, "learned(length=64)", config) is POSITIONS["learned"](config, length=64)."""
    name, keywords = parse_call(spec, table)
    if name not in table:
        raise InputError(f"unknown name {name!r}; {nearest(name, table)}")
    part = table[name]
    accepted = _options(part)
    if keywords:
        from pydantic import ValidationError
    for key, value in keywords.items():
        if key not in accepted:
            hint = nearest(key, accepted) if accepted else "it takes none"
            raise InputError(f"{name!r} has no option {key!r}; {hint}")
        try:
            _adapter(accepted[key]).validate_python(value, strict=True)
        except ValidationError as error:
            raise InputError(f"{name}({key}={value!r}): {error.errors()[0]['msg']}") from None
    return part(*args, **keywords)
