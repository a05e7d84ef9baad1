"""The package's own table of contents, read as text: what its tables name, and what can be set.

A position, a model or a schedule is chosen from the table of its room, and importing a room imports torch, which takes
longer than all else that `qkv --help`, `qkv list` or a mistaken flag has to do. This reads the source instead, and
imports nothing. A test compares every table and every class of settings with what importing says.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from inspect import getdoc
from pathlib import Path
from typing import Any, Literal, NamedTuple

from qkv.parts import of_table

ROOT = Path(__file__).parent
RECIPES = [ROOT / "recipes", ROOT.parents[1] / "recipes"]  # installed, in a checkout
KINDS: dict[str, Any] = {"bool": bool, "float": float, "int": int, "str": str}


class Part(NamedTuple):
    """What a table names: the docstring of a class or function, and where it is defined; or a plain text."""

    doc: str
    module: str = ""
    name: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return " ".join(self.doc.partition("\n\n")[0].split())


class Setting(NamedTuple):
    """A field of a class of settings: its type, or the settings that are inside it; and what `--help` says of it."""

    kind: Any
    about: str


Settings = dict[str, Setting]


def table(module: str, name: str) -> dict[str, Part]:
    """A dict literal, for example POSITIONS of qkv.positions: its names, and the part behind each; and what users have
    registered."""
    own = {key: Part(getdoc(one) or "") for key, one in of_table(module, name).items()}
    module, made = find(module, name)
    parts: dict[str, Part] = {}
    for display in (statement.value for statement in made if isinstance(statement.value, ast.Dict)):
        for key, value in zip(display.keys, display.values, strict=True):
            if key is not None:
                text = str(value.value) if isinstance(value, ast.Constant) else ""
                parts[ast.literal_eval(key)] = part(module, value.id) if isinstance(value, ast.Name) else Part(text)
    return parts | own


def names(module: str, name: str) -> list[str]:
    """The names of a table alone: of all files, only the one that has it is read."""
    _, made = find(module, name)
    displays = (statement.value for statement in made if isinstance(statement.value, ast.Dict))
    return [ast.literal_eval(key) for display in displays for key in display.keys if key is not None]


def part(module: str, name: str) -> Part:
    """A class or function of a module, or one that the module imports."""
    module, (definition, *_) = find(module, name)
    is_one = isinstance(definition, ast.ClassDef | ast.FunctionDef)
    return Part(ast.get_docstring(definition) or "", module, definition.name) if is_one else Part("")


def attribute(owner: Part, name: str) -> tuple[str, str] | None:
    """What a class calls `name`, in its own body or in a base's: ("qkv.models.transformer", "TransformerConfig")."""
    for module, definition in lineage(owner.module, owner.name):
        for statement in definition.body:
            value = getattr(statement, "value", None)
            if name in bound(statement) and isinstance(value, ast.Name):
                return module, value.id
    return None


def settings(module: str, name: str) -> Settings:
    """The fields of a dataclass, those of its bases first."""
    fields: Settings = {}
    for where, definition in reversed(list(lineage(module, name))):
        for field in definition.body:
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.annotation).startswith("ClassVar"):
                match field.value:
                    case ast.Call(ast.Name("setting"), [_, sentence]):
                        about = ast.literal_eval(sentence)
                    case _:
                        about = ""
                fields[ast.unparse(field.target)] = Setting(kind(where, field.annotation), about)
    return fields


def kind(module: str, annotation: ast.expr) -> Any:
    """The type that an annotation of a setting names; of a class of settings, its fields."""
    match annotation:
        case ast.Name(name) if name in KINDS:
            return KINDS[name]
        case ast.Constant(None):
            return None
        case ast.Subscript(ast.Name("Literal"), choices):
            return Literal[ast.literal_eval(choices)]
        case ast.Subscript(ast.Name("list"), one):
            return list[kind(module, one)]  # type: ignore[misc]
        case ast.BinOp(left, ast.BitOr(), right):
            return kind(module, left) | kind(module, right)
        case ast.Name(name) if name in statements(module):
            module, (made, *_) = find(module, name)
            return settings(module, name) if isinstance(made, ast.ClassDef) else kind(module, made.value)
    raise TypeError(f"{ast.unparse(annotation)} is no type of a setting that this can read; add it to `kind`")


def recipes() -> dict[str, tuple[Path, str]]:
    """The recipes that come with qkv, one for each result that it claims: file, and the published figure beside it."""
    found = [path for folder in RECIPES for path in sorted(folder.glob("*.toml"))]
    return {path.stem: (path, tomllib.loads(path.read_text(encoding="utf-8")).get("published", "")) for path in found}


# -- the source ------------------------------------------------------------------------------------------------------


@cache
def statements(module: str) -> dict[str, list[Any]]:
    """Each name at the top of a module, and the statements that make it."""
    path = ROOT.joinpath(*module.split(".")[1:])
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: dict[str, list[Any]] = {}
    for statement in ast.parse(source.read_text(encoding="utf-8")).body:
        for name in bound(statement):
            found.setdefault(name, []).append(statement)
    return found


def bound(statement: ast.stmt) -> list[str]:
    """The names that a statement makes."""
    match statement:
        case ast.ClassDef(name) | ast.FunctionDef(name):
            return [name]
        case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)) | ast.AugAssign(ast.Name(name)):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
    return []


def find(module: str, name: str) -> tuple[str, list[Any]]:
    """The statements that make a name, in the module that has them: imports within the package are followed."""
    made = statements(module)[name]
    match made[0]:
        case ast.ImportFrom(str(source), names) if source.split(".")[0] == "qkv":
            return find(source, next(alias.name for alias in names if (alias.asname or alias.name) == name))
    return module, made


def lineage(module: str, name: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class and its bases, as far as they are ours, each with its module; of a user's own class, none."""
    if not module:
        return
    module, (definition, *_) = find(module, name)
    if isinstance(definition, ast.ClassDef):
        yield module, definition
        for base in definition.bases:
            if isinstance(base, ast.Name) and base.id in statements(module):
                yield from lineage(module, base.id)
