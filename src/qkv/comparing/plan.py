"""What is compared: rows, each a recipe with some settings changed; and which of them can be built."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from itertools import chain, product
from pathlib import Path
from typing import Any

import torch

from qkv.config import Tree, merge
from qkv.errors import InputError
from qkv.models import MODELS
from qkv.training.settings import STAGED, complete, read_settings, task_of

SHORT = {"attention": "model.attention", "position": "model.position", "model": "architecture"}
SECTIONS = ("data", "model", "objective", "training")
CLOSES = {"(": ")", "[": "]", "{": "}"}
LONGEST = 100  # letters of a name that become a folder's
LIMITS = ("steps", "epochs", "minutes")


@dataclass(frozen=True)
class Row:
    """One row of the table: a name, and the settings that differ from the recipe's. Or a stage: what is trained before
    some rows, or before another stage, that begin with its weights."""

    name: str
    changes: Tree = field(default_factory=dict)
    published: str = ""  # the figures of the same row in a paper
    curve: str = ""  # of a learning curve: which one it is a point of,
    examples: int = 0  # and how many examples it learns from
    after: str = ""  # the stage whose weights it begins with;
    untrained: bool = False  # with this, the weights of that stage's first moment
    against: str = ""  # the row that it is set against, seed by seed
    note: str = ""  # a sentence for below the table
    share: float = 0.0  # of the budget; 0 for a run with limits of its own
    sets: Tree = field(default_factory=dict)  # settings on one of the recipe's sets alone, by its name
    is_stage: bool = False
    recipe: Tree = field(default_factory=dict)  # of a stage: settings of another recipe, beneath those of every stage

    def on(self, part: str) -> "Row":
        """The row as it is on one of the recipe's sets."""
        own = dict(self.sets.get(part, {}))
        return replace(self, after=own.pop("after", self.after), changes=merge(self.changes, own))

    @property
    def folder(self) -> str:
        """A name that every file system takes."""
        name = re.sub(r"[^\w.,=()+-]+", "-", self.name, flags=re.ASCII).strip("-. ")
        is_short = name and len(name) <= LONGEST
        return name if is_short else f"{name[:LONGEST]}-{blake2b(self.name.encode(), digest_size=4).hexdigest()}"


def read_recipe(recipe: str | Path) -> tuple[Tree, list[Row]]:
    """A recipe's own settings, and the rows of its [[vary]] list: a name, any settings, and what else a Row has."""
    tree = read_settings(recipe)
    if not tree.get("train") and not tree.get("sets"):
        raise InputError(f'{recipe} names no files to train on; give it a line such as train = ["pairs.tsv"]')
    if not isinstance(tree.get("model", {}), dict):
        raise InputError(f"{recipe}: model is {tree['model']!r}; write its settings below a line [model]")
    listed = tree.pop("vary", [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise InputError(f"{recipe}: vary is {listed!r}; write each row as a table that begins with [[vary]]")
    rows = []
    for number, entry in enumerate(listed, start=1):
        name = entry.get("name")
        if not isinstance(name, str) or not name.strip():
            raise InputError(f'{recipe}: row {number} of [[vary]] has no name; give it one, for example name = "h=1"')
        row = read_row(entry, f"{recipe}: row {name!r}")
        if "task" in row.changes:
            raise InputError(f"{recipe}: row {name!r} sets task, but rows of one table share it; make it the recipe's")
        rows.append(row)
    return tree, rows


def read_row(entry: Tree, where: str) -> Row:
    """What a table of [[vary]] or [stages] says: settings, and beside them what a Row calls its own."""
    kinds: dict[str, type] = {"name": str, "published": str, "curve": str, "examples": int, "after": str,
                              "untrained": bool, "against": str, "note": str, "share": float, "sets": dict}  # fmt: skip
    own = {key: entry[key] for key in kinds if key in entry}
    for key, value in own.items():
        if type(value) is not kinds[key] and not (kinds[key] is float and type(value) is int):
            raise InputError(f"{where}: {key} is {value!r}, but it is to be of the type {kinds[key].__name__}")
    row = Row(**{**own, "changes": {key: value for key, value in entry.items() if key not in kinds}})
    for changes in (row.changes, *row.sets.values()):
        check_seed(changes, where)
    if bool(row.curve) != (row.examples > 0):
        raise InputError(
            f"{where} is a point of a learning curve by two keys; give both, for example "
            'curve = "from random weights" and examples = 100, or neither'
        )
    if "share" in own and not 0 < row.share <= 1:
        raise InputError(f"{where}: share is {row.share}; give it a part of the budget: above 0, and 1 for all of it")
    if row.untrained and not row.after:
        raise InputError(f"{where} is untrained, and says of which stage; give it after = and the name of a stage")
    return row


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


def parts(base: Tree) -> list[str]:
    """The names of the sets that each row is run on; without sets it is one that has no name."""
    return list(base.get("sets", {})) or [""]


def stage(base: Tree, name: str) -> Row:
    """A stage of a recipe. It may name another one, whose settings those of every stage and its own change."""
    entry = dict(base["stages"][name])
    written = read_settings(entry.pop("recipe")) if "recipe" in entry else {}
    written = {key: value for key, value in written.items() if key not in ("published", "vary", *STAGED)}
    return replace(read_row({**entry, "name": name}, f"the stage {name!r}"), is_stage=True, recipe=written)


def laid_over(base: Tree, row: Row, part: str = "") -> tuple[Tree, list[str]]:
    """The settings of a row, on one of the recipe's sets, or of a stage; and the keys of the recipe's [model] that
    another architecture does not have."""
    own = merge(row.recipe, base.get("every_stage", {}))
    under = own if row.is_stage else merge(base, base.get("sets", {}).get(part, {}))
    under, row = {key: value for key, value in under.items() if key not in STAGED}, row.on(part)
    if row.is_stage and row.after:  # its sizes and sub-words are those of the stage before it
        data = {key: value for key, value in under.get("data", {}).items() if key not in ("tokenizer", "vocab_size")}
        under = {**under, "data": data, "model": {}}
    changes = row.changes
    if row.after and "architecture" not in {**under, **changes}:
        before = laid_over(base, stage(base, row.after))[0].get("architecture", "")
        changes = {**changes, **({"architecture": before} if before in task_of(under, row.name).models() else {})}
    name, model = str(changes.get("architecture", "")), under.get("model", {})
    known = {"preset", *(setting.name for setting in fields(MODELS[name].config_class))} if name in MODELS else model
    kept = {key: value for key, value in model.items() if key in known}
    tree = merge({**under, "model": kept}, changes)
    if row.share:
        limits = {key: tree.get("training", {}).get(key, 0) * row.share for key in LIMITS}
        steps = max(1, round(limits["steps"])) if limits["steps"] else 0
        tree = merge(tree, {"training": {**limits, "steps": steps}})
    return tree, [key for key in model if key not in known]


def problem(base: Tree, row: Row, part: str = "") -> str:
    """Why a row cannot be built, in one sentence; nothing if it can."""
    try:
        settings = complete(laid_over(base, row, part)[0], "settings")
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
    problems = {row.name: said for row in rows for part in parts(base) if (said := problem(base, row, part))}
    if problems and not (skip and len(problems) < len(rows)):
        said = "; ".join(f"{name}: {sentence}" for name, sentence in problems.items())
        cure = "correct them" if len(problems) == len(rows) else "leave them out, or give --skip-impossible"
        raise InputError(f"{len(problems)} of {len(rows)} rows cannot be built ({said}); {cure}")
    return [row for row in rows if row.name not in problems], problems
