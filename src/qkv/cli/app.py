"""What the commands share: how they are asked and how they answer."""

import json
from typing import Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
