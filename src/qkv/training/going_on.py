"""A run that goes on: its data and its settings are those that it began with; when it ends may be another."""

from dataclasses import fields
from typing import Any

from qkv.config import Tree, merge, parse_call
from qkv.errors import InputError
from qkv.tasks import Corpus
from qkv.tasks.corpus import MEMORY, digest
from qkv.training.settings import Settings, complete, modern, paths, spelled_out

# What may change when a run goes on: when it stops and what it runs on, never what it computes.
FREE = {
    "steps",
    "epochs",
    "minutes",
    "patience",
    "bleu_sentences",
    "checkpoint_minutes",
    "checkpoint_steps",
    "keep",
    "threads",
}


def check_task(stored: Tree, asked: Tree) -> None:
    if (name := asked.get("task")) and name != stored.get("task"):
        raise changed("task", stored.get("task"), name)


def check_files(corpus: Corpus) -> None:
    for name, expected in corpus.digests.items():
        if name.startswith(MEMORY):
            continue
        path = paths([name])[0]
        if not path.exists() or digest(path) != expected:
            raise InputError(f"{path} has changed since this run began; give a new --out, or --restart to begin anew")


def unchanged(stored: Tree, before: Settings, asked: Tree, where: str) -> Settings:
    """The settings of the run with its new limits; what else is asked for now must be as it was."""
    given = {"task": stored["task"], "architecture": stored["architecture"], **asked}
    asked = modern(given, where, stored["objective"])
    limits = {"steps": 0, "epochs": 0.0, "minutes": 0.0}
    new_limits = {k: v for k, v in asked.get("training", {}).items() if k in limits and v}
    now = merge(stored, asked, {"training": {**limits, **new_limits}} if new_limits else {})
    model = merge(stored["model"], asked_model(asked)) if asked["architecture"] == stored["architecture"] else {}
    settings = complete({**now, "model": model}, where)
    for section in (field.name for field in fields(before) if field.name != "published"):
        old, new = (getattr(which, section) for which in (before, settings))
        for key, value in vars(old).items() if hasattr(old, "__dict__") else [("", old)]:
            there = getattr(new, key, None) if key else new
            if value != there and not (section == "training" and key in FREE):
                if section == "objective":
                    raise changed_objective(value, str(there))
                raise changed(f"{section}.{key}" if key else section, value, there)
    return settings


def changed_objective(before: str, now: str) -> InputError:
    """Of one objective with other options, which option."""
    try:
        (old, had), (new, has) = parse_call(before), parse_call(now)
    except InputError:  # a sum
        return changed("objective", before, now)
    key = next((key for key in had if had[key] != has.get(key)), "") if old == new else ""
    return changed(f"objective.{key}", had[key], has.get(key)) if key else changed("objective", before, now)


def changed(name: str, before: Any, now: Any) -> InputError:
    return InputError(
        f"this run began with {name} = {before!r}, now it is {now!r}; give a new --out, or --restart to begin anew"
    )


def asked_model(asked: Tree) -> Tree:
    """What is asked of the model, its preset spelled out but for dropout, which follows the size of the corpus."""
    model = asked.get("model", {})
    return {key: value for key, value in spelled_out(asked, "settings").items() if key != "dropout" or key in model}
