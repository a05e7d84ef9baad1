"""What the commands share: how they are asked and how they answer."""

import json
from pathlib import Path
from typing import Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from qkv.errors import InputError

out = Console(highlight=False, soft_wrap=True)
MULTIPLE = Parameter(consume_multiple=True, negative=())
PLAIN = Parameter(negative=())


def print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False))


def print_rows(rows: dict[str, str]) -> None:
    """Names, and something about each."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, about in rows.items():
        table.add_row(name, Text(about))
    out.print(table)


def opened(model: Path, device: str, command: str, **how: Any) -> Any:
    """What `qkv.load` gives, if it is of a task that this command is for."""
    from qkv.opening import load, task_in_folder
    from qkv.tasks import TASKS

    if model.is_dir():  # if it is none, `load` says so
        task = TASKS[task_in_folder(model)]
        if not task.asks.startswith(f"qkv {command} "):
            raise InputError(f"{model} holds a model of the task {task.name!r}; ask it by {task.asks} --model {model}")
    return load(model, device, **how)
