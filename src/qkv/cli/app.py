"""The application that every command joins, and what the commands share."""

import json
from typing import Any

from cyclopts import App, Parameter
from rich.console import Console

from qkv import __version__

ABOUT = """Train a Transformer on your own sentence pairs, translate with it, look inside it.

For example:
  qkv demo                                three minutes, English words to sounds
  qkv train pairs.tmx --from en --to de   learn from a translation memory
  qkv train train.en train.de --valid val.en val.de --out model
  qkv translate "Two dogs play in the snow." --model model
  qkv score --model model test.en test.de
"""
# Plain text keeps the lines of the examples; "Examples:" would be read as a section of a docstring, and left out.
app = App(
    name="qkv", version=__version__, help=ABOUT, help_format="plaintext",
    suppress_keyboard_interrupt=False,  # `main` says that it was interrupted
)  # fmt: skip
out = Console(highlight=False, soft_wrap=True)
MULTIPLE = Parameter(consume_multiple=True, negative=())
PLAIN = Parameter(negative=())


def print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False))
