"""The settings of one run of a task: what recipes, flags and the run folder hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qkv.config import Tree, check_keys, from_tree, merge
from qkv.errors import InputError, nearest
from qkv.models import MODELS
from qkv.tasks.task import Task
from qkv.training.settings import TrainingConfig, check_best_by, spelled_out

PARTS = ("data", "model", "objective")  # sections whose settings are classes of the task's own


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """One run of a task, whole. What is not given is the task's own default."""

    published: str = ""  # the published figure that a recipe is measured against
    task: str
    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    test: list[str] = field(default_factory=list)
    architecture: str
    data: Any = None
    model: Any = None
    objective: Any = None
    training: TrainingConfig = field(default_factory=TrainingConfig)


def with_defaults(task: type[Task], tree: Mapping[str, Any]) -> Tree:
    return merge({"task": task.name, "architecture": task.architecture}, task.defaults, tree)


def complete(task: type[Task], tree: Mapping[str, Any], where: str) -> TaskSettings:
    """Settings from plain data; unknown keys and wrong values are refused, each in one sentence."""
    tree = with_defaults(task, tree)
    for section in (*PARTS, "training"):
        if not isinstance(tree.get(section, {}), Mapping):
            raise InputError(f"{where}: {section} is {tree[section]!r}; it must be a table of settings")
    models = {name: model for name, model in MODELS.items() if model.task == task.name}
    if tree["architecture"] not in models:
        name = str(tree["architecture"])
        raise InputError(f"{where}: {name!r} is no model of the task {task.name!r}; {nearest(name, models)}")
    check_keys(TaskSettings, {key: value for key, value in tree.items() if key not in PARTS}, where)
    classes = {"data": task.data_class, "model": models[tree["architecture"]].config_class}
    classes |= {"objective": task.objective_class}
    given = {"data": tree.get("data", {}), "model": spelled_out(tree, where), "objective": tree.get("objective", {})}
    parts = {name: from_tree(classes[name], given[name], f"{where}: {name}") for name in PARTS}
    rest = {key: value for key, value in tree.items() if key not in PARTS}
    settings = replace(from_tree(TaskSettings, rest, where), **parts)
    check_best_by(settings.training, ("loss", "accuracy"), f"the task {task.name!r}", where)
    return settings
