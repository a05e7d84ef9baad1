"""Stages: what is trained before the rows of a comparison; whether all names are known, and the budget of each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qkv.comparing.plan import LIMITS, Row, laid_over, problem, stage
from qkv.config import Tree, merge
from qkv.errors import InputError, nearest
from qkv.training.settings import STAGED


def check(base: Tree, rows: Sequence[Row], where: str) -> None:
    """Refuse what cannot be: a name of no stage, set or row; stages in a circle; a stage that cannot be built."""
    for section in STAGED:
        given = base.get(section, {})
        inner = given.values() if isinstance(given, dict) and section != "every_stage" else []
        if not isinstance(given, dict) or not all(isinstance(one, dict) for one in inner):
            raise InputError(f"{where}: {section} is {given!r:.60}; write it as tables, such as [stages.bert]")
    sets = base.get("sets", {})
    for row in rows:
        for name in row.sets:
            if name not in sets:
                raise InputError(f"{where}: row {row.name!r} has settings for the set {name!r}; {nearest(name, sets)}")
        if row.against and row.against not in [other.name for other in rows]:
            known = nearest(row.against, [other.name for other in rows])
            raise InputError(f"{where}: row {row.name!r} is set against {row.against!r}, which is no row; {known}")
        for part in sets or [""]:
            chain(base, row.on(part), where)
    for name in base.get("stages", {}):
        chain(base, stage(base, name), where)
        if not laid_over(base, stage(base, name))[0].get("train"):
            raise InputError(f"{where}: the stage {name!r} has no files; give it train, or [every_stage]")
        if said := problem(base, stage(base, name)):
            raise InputError(f"{where}: the stage {name!r} cannot be built: {said}; correct it")


def chain(base: Tree, row: Row, where: str) -> list[Row]:
    """The stages before a row, the first one first."""
    found, stages, name = list[Row](), base.get("stages", {}), row.after
    while name:
        if name not in stages:
            raise InputError(f"{where}: {row.name!r} comes after the stage {name!r}, and there is none such; "
                             f"{nearest(name, stages)}")  # fmt: skip
        if name in [one.name for one in found] or (row.is_stage and name == row.name):
            raise InputError(f"{where}: the stage {name!r} comes after itself; let one of its stages be the first")
        found.insert(0, stage(base, name))
        name = found[0].after
    return found


def budgeted(base: Tree, rows: list[Row], limits: Tree) -> tuple[Tree, list[Row]]:
    """What is given stands in place of the recipe's own limits. In a recipe with stages, steps and minutes are those of
    all that has a `share`, and of every stage; epochs are those of the other rows."""
    if not limits or not base.get("stages"):
        return merge(base, {"training": limits}), rows
    given = {key: limits[key] for key in LIMITS}
    spent = {"training": {**given, "epochs": 0.0, "patience": 0}}
    if any(spent["training"][key] for key in LIMITS):
        base = {**base, "stages": {name: merge(one, spent) for name, one in base["stages"].items()}}
        rows = [replace(row, changes=merge(row.changes, spent)) if row.share else row for row in rows]
    return merge(base, {"training": {**limits, "steps": 0, "minutes": 0.0}} if given["epochs"] else {}), rows


def reading(base: Tree, text: Sequence[str | Path], where: str) -> Tree:
    """The recipe with other files for all stages that read what [every_stage] names."""
    if not text:
        return base
    if "every_stage" not in base:
        raise InputError(f"{where} has no [every_stage], whose files --text would replace; write its own files into it")
    own = {key: value for key, value in base["every_stage"].items() if key not in ("valid", "test")}
    return {**base, "every_stage": {**own, "train": [str(path) for path in text]}}
