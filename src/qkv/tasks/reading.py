"""The examples of a run out of its files, those to validate apart from those to train on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.tasks.settings import TaskSettings
from qkv.tasks.task import Task
from qkv.text.lines import check_file
from qkv.training import prepare
from qkv.training.settings import paths


@dataclass(frozen=True)
class Read:
    """The examples of a run as `Task.read` gives them."""

    train: list[Any]
    valid: list[Any]


def read_examples(task: Task, settings: TaskSettings, say: Callable[[str], None]) -> Read:
    """The examples of the files. Without validation files, some are held out by their keys: the same ones in every
    run, one in ten at most. A training example with the key of one to validate or to test is dropped."""
    train, valid, test = (read_files(task, paths(getattr(settings, name))) for name in ("train", "valid", "test"))
    if not settings.valid and train:
        lots = sorted({prepare.lot("valid", task.key(one)) for one in train})
        most = lots[min(settings.data.held_out, max(1, len(lots) // 10), len(lots)) - 1]
        valid = [one for one in train if prepare.lot("valid", task.key(one)) <= most]
    kept_out = {task.key(one) for one in (*valid, *test)}
    kept = [one for one in train if task.key(one) not in kept_out]
    if settings.valid and len(kept) < len(train):
        say(f"  {len(train) - len(kept):,} training examples are also to validate or to test: dropped")
    if not kept or not valid:
        raise InputError(f"{len(kept)} examples to train on and {len(valid)} to validate are left; give more")
    return Read(kept, valid)


def read_files(task: Task, files: Sequence[Path]) -> list[Any]:
    """The examples of some files, one after the other."""
    found: list[Any] = []
    for path in files:
        check_file(path)
        found += task.read(path)
    return found
