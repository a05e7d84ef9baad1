"""What is compared: rows, each a recipe with some settings changed; and which of them can be built."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from itertools import chain, product
from pathlib import Path
from typing import Any

import torch

from qkv.config import Tree, merge
from qkv.errors import InputError
from qkv.models import MODELS
from qkv.training.settings import complete, read_settings

SHORT = {"attention": "model.attention", "position": "model.position", "model": "architecture"}
SECTIONS = ("data", "model", "objective", "training")
CLOSES = {"(": ")", "[": "]", "{": "}"}
LONGEST = 100  # letters of a name that become a folder's


@dataclass(frozen=True)
class Row:
    """One row of the table: a name, and the settings that differ from the recipe's."""

    name: str
    changes: Tree = field(default_factory=dict)
    published: str = ""  # the figures of the same row in a paper
    curve: str = ""  # of a learning curve: which one it is a point of,
    examples: int = 0  # and how many examples it learns from

    @property
    def folder(self) -> str:
        """A name that every file system takes."""
        name = re.sub(r"[^\w.,=()+-]+", "-", self.name, flags=re.ASCII).strip("-. ")
        is_short = name and len(name) <= LONGEST
        return name if is_short else f"{name[:LONGEST]}-{blake2b(self.name.encode(), digest_size=4).hexdigest()}"


def read_recipe(recipe: str | Path) -> tuple[Tree, list[Row]]:
    """A recipe's own settings, and the rows of its [[vary]] list: a name, any settings, perhaps `published`; of points
    of learning curves, `curve` and `examples`."""
    tree = read_settings(recipe)
    if not tree.get("train"):
        raise InputError(f'{recipe} names no files to train on; give it a line such as train = ["pairs.tsv"]')
    if not isinstance(tree.get("model", {}), dict):
        raise InputError(f"{recipe}: model is {tree['model']!r}; write its settings below a line [model]")
    listed = tree.pop("vary", [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise InputError(f"{recipe}: vary is {listed!r}; write each row as a table that begins with [[vary]]")
    rows = []
    for number, entry in enumerate(listed, start=1):
        changes = dict(entry)
        name, published = changes.pop("name", None), changes.pop("published", "")
        curve, examples = changes.pop("curve", ""), changes.pop("examples", 0)
        if not isinstance(name, str) or not name.strip():
            raise InputError(f'{recipe}: row {number} of [[vary]] has no name; give it one, for example name = "h=1"')
        check_seed(changes, f"{recipe}: row {name!r}")
        if "task" in changes:
            raise InputError(f"{recipe}: row {name!r} sets task, but rows of one table share it; make it the recipe's")
        if not isinstance(curve, str) or type(examples) is not int or bool(curve) != (examples > 0):
            raise InputError(
                f"{recipe}: row {name!r} is a point of a learning curve by two keys; give both, for example "
                'curve = "from random weights" and examples = 100, or neither'
            )
        rows.append(Row(name, changes, str(published), curve, examples))
    return tree, rows


def varied(given: Sequence[str], one_by_one: bool = False) -> list[Row]:
    """The rows of some --vary: every combination, or each variation alone after a row of the recipe as it is."""
    several = [variations(text) for text in given]
    keys = [text.partition("=")[0].strip() for text in given]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"--vary names {key!r} twice; give all its values at once, as in --vary {key}=A,B")
    if one_by_one:
        return [Row("base"), *chain.from_iterable(several)]
    return [
        Row(", ".join(row.name for row in rows), merge(*(row.changes for row in rows))) for rows in product(*several)
    ]


def variations(text: str) -> list[Row]:
    """'position=none,learned(length=64)' -> a row for each of the two values."""
    key, _, values = (part.strip() for part in text.partition("="))
    name = SHORT.get(key, key).replace("-", "_")
    section, _, setting = name.partition(".")
    if not values or (name != "architecture" and not (section in SECTIONS and setting)):
        raise InputError(
            f"--vary {text!r} does not say what to vary; write KEY=A,B with attention, position or architecture as the "
            "KEY, or the dotted name of a setting such as model.d_model"
        )
    rows = []
    for value in split(values):
        changes: Any = plain(value)
        for part in reversed(name.split(".")):
            changes = {part: changes}
        check_seed(changes, f"--vary {text!r}")
        rows.append(Row(f"{key}={value}", changes))
    return rows


def split(text: str) -> list[str]:
    """Split at commas, but not inside brackets: 'a(b=1,c=2),d' -> ['a(b=1,c=2)', 'd']."""
    parts, awaited = [""], list[str]()
    for letter in text:
        if letter in CLOSES:
            awaited.append(CLOSES[letter])
        elif letter in CLOSES.values() and (not awaited or awaited.pop() != letter):
            awaited = [letter]  # in vain
            break
        if letter == "," and not awaited:
            parts.append("")
        else:
            parts[-1] += letter
    if awaited:
        raise InputError(f"the brackets of {text!r} do not match; close each one that is opened")
    parts = [part.strip() for part in parts]
    if "" in parts:
        raise InputError(f"{text!r} has an empty value; write values with one comma between them, such as A,B")
    return parts


def plain(value: str) -> Any:
    """A number, true or false where the text is one; otherwise the text."""
    try:
        read = json.loads(value)
    except ValueError:
        return value
    return read if isinstance(read, bool | int | float) else value


def check_seed(changes: Tree, where: str) -> None:
    data = changes.get("data", {})
    if isinstance(data, dict) and "seed" in data:
        raise InputError(f"{where} sets data.seed, but figures are averaged over seeds; give --seeds 3 instead")


def laid_over(base: Tree, row: Row) -> tuple[Tree, list[str]]:
    """The settings of a row; and the keys of the recipe's [model] that another architecture does not have."""
    name, model = str(row.changes.get("architecture", "")), base.get("model", {})
    known = {"preset", *(setting.name for setting in fields(MODELS[name].config_class))} if name in MODELS else model
    kept = {key: value for key, value in model.items() if key in known}
    return merge({**base, "model": kept}, row.changes), [key for key in model if key not in known]


def problem(base: Tree, row: Row) -> str:
    """Why a row cannot be built, in one sentence; nothing if it can."""
    try:
        settings = complete(laid_over(base, row)[0], "settings")
        with torch.device("meta"):  # sizes without weights
            MODELS[settings.architecture](settings.model)
    except InputError as error:
        return str(error)
    return ""


def possible(base: Tree, rows: list[Row], skip: bool) -> tuple[list[Row], dict[str, str]]:
    """The rows that can be built, and why the others cannot; without `skip`, one that cannot is refused."""
    kept: dict[str, Row] = {}
    for row in rows:
        same = kept.setdefault(row.folder.lower(), row)  # some file systems do not tell A from a
        if same is not row:
            both = f"the rows {same.name!r} and {row.name!r} would both be kept in {row.folder}"
            raise InputError(f"{both}; give one of them another name")
    problems = {row.name: sentence for row in rows if (sentence := problem(base, row))}
    if problems and not (skip and len(problems) < len(rows)):
        said = "; ".join(f"{name}: {sentence}" for name, sentence in problems.items())
        cure = "correct them" if len(problems) == len(rows) else "leave them out, or give --skip-impossible"
        raise InputError(f"{len(problems)} of {len(rows)} rows cannot be built ({said}); {cure}")
    return [row for row in rows if row.name not in problems], problems
