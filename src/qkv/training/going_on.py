"""A run that goes on: its data and its settings are those that it began with; when it ends may be another."""

from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from qkv import manifest
from qkv.config import Tree, merge, parse_call
from qkv.errors import InputError
from qkv.files import digest
from qkv.folder import RunFolder
from qkv.tasks import Corpus
from qkv.tasks.corpus import MEMORY
from qkv.training.settings import IDLE, LIMITS, Settings, complete, modern, paths, read_settings, spelled_out

# What may change when a run goes on: when it stops and what it runs on, never what it computes.
FREE = {"published", "measured_by", *(f"training.{name}" for name in (*LIMITS, *IDLE, "bleu_sentences"))}


def resumed(folder: RunFolder, asked: Tree, where: str) -> tuple[Settings, Corpus]:
    """The settings of the run with its new limits, and its data; what else is asked for now must be as it was."""
    manifest.check(folder.place)
    stored = read_settings(folder.recipe)
    before = complete(stored, str(folder.recipe))
    corpus = Corpus.open(Path(before.corpus) if before.corpus else folder.corpus)
    files = {name: expected for name, expected in corpus.digests.items() if not name.startswith(MEMORY)}
    for path, expected in zip(paths(list(files)), files.values(), strict=True):
        if not path.exists() or digest(path, "blake2b")[:32] != expected:
            raise InputError(f"{path} has changed since this run began; give a new --out, or --restart to begin anew")
    if asked.get("task", stored["task"]) != stored["task"]:
        raise changed("task", stored["task"], asked["task"])
    given = {"task": stored["task"], "architecture": stored["architecture"], **asked}
    asked = modern(given, where, stored["objective"])
    limits = {"steps": 0, "epochs": 0.0, "minutes": 0.0}
    new_limits = {k: v for k, v in asked.get("training", {}).items() if k in limits and v}
    now = merge(stored, asked, {"training": {**limits, **new_limits}} if new_limits else {})
    model = merge(stored["model"], asked_model(asked)) if asked["architecture"] == stored["architecture"] else {}
    settings = complete({**now, "model": model}, where)
    new = told(settings)
    for key, value in told(before).items():
        if value != new.get(key):  # of another objective, its whole text is said
            raise changed(key, getattr(before, key, value), getattr(settings, key, new.get(key)))
    return settings, corpus


def told(settings: Settings) -> Tree:
    """The settings that may not change, by their dotted names; options of an objective too, unless it is a sum."""
    found = flat(settings)
    with suppress(InputError):
        found["objective"], options = parse_call(settings.objective)
        found |= {f"objective.{key}": value for key, value in options.items()}
    return {key: value for key, value in found.items() if key not in FREE}


def alike(settings: Settings) -> list[tuple[str, Any]]:
    """The settings that all ranks of a run must share: all but what each computes on."""
    own = {f"training.{name}" for name in IDLE if name != "shard"}
    return sorted((key, value) for key, value in flat(settings).items() if key not in own)


def flat(settings: Settings) -> Tree:
    """All settings by their dotted names."""
    found: Tree = {}
    for name, value in vars(settings).items():
        found |= {f"{name}.{key}": one for key, one in vars(value).items()} if is_dataclass(value) else {name: value}
    return found


def changed(name: str, before: Any, now: Any) -> InputError:
    return InputError(
        f"this run began with {name} = {before!r}, now it is {now!r}; give a new --out, or --restart to begin anew"
    )


def asked_model(asked: Tree) -> Tree:
    """What is asked of the model, its preset spelled out but for dropout, which follows the size of the corpus."""
    model = asked.get("model", {})
    return {key: value for key, value in spelled_out(asked, "settings").items() if key != "dropout" or key in model}
