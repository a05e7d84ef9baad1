"""What the commands share: how they are asked and how they answer."""

import gc
import importlib
import json
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.bundled import located
from qkv.device import ENGINE
from qkv.memory import check_addresses

if TYPE_CHECKING:
    from rich.console import Console

    from qkv.decoding import Translator
    from qkv.text import Pair

MULTIPLE = Parameter(consume_multiple=True, negative=())
PLAIN = Parameter(negative=())
OUTPUT = Parameter(name=["--output", "-o"])
LEAST = 2**31  # bytes of addresses, of which torch takes half by itself; with fewer it aborts here or there

# Options of several commands, each with what --help says of it.
Flag = Annotated[bool, PLAIN]
Files = Annotated[list[Path] | None, MULTIPLE]
Several = Annotated[list[str] | None, PLAIN]  # the flag may be given several times
Output = Annotated[Path | None, OUTPUT]
MODEL = Parameter(
    help="The model folder, or the name of a translator that comes with qkv.",
    converter=lambda _, tokens: located(tokens[0].value),
)
Model = Annotated[Path, MODEL]
Beam = Annotated[int, Parameter(help="Hypotheses kept in beam search; 1 is greedy.")]
PART = """Which part of the file: 3/8 for the third of eight, which are cut at line ends, one after the other. It is
written to -o whole or not at all, and one that is there is left as it is."""
Shard = Annotated[str | None, Parameter(help=PART)]
Json = Annotated[Flag, Parameter(help="Print one JSON object.")]
Device = Annotated[str, Parameter(help="cpu, cuda or mps.")]
OnePart = Annotated[str, Parameter(help="Of a model of several tasks: the part that is asked.")]
Restart = Annotated[Flag, Parameter(help="Begin anew, even if OUT holds a run or a model.")]
From = Annotated[str, Parameter(name="--from", help="source language, e.g. en")]
To = Annotated[str, Parameter(help="target language, e.g. de")]
ONE_SENTENCE = """Do not part lines into sentences: for lines that are parted already, and for models that were trained
on lines of several."""
NoSplit = Annotated[Flag, Parameter(help=ONE_SENTENCE)]
ENGINES = """What searches: float32, int8 (after qkv quantize), either with +shortlist (after qkv shortlist), plain,
ctranslate2, ctranslate2-int8, or auto: int8 where the folder has it, else float32."""
Engine = Annotated[str, Parameter(help=ENGINES)]
READERS = "What reads: float32, int8 (after qkv quantize), plain, or auto: int8 where there is one, else float32."
Writer = Annotated[
    str,
    Parameter(help="What writes: float32, int8 (after qkv quantize), plain, or auto: int8 if it is there."),
]
Reader = Annotated[str, Parameter(help=READERS)]


@cache
def console() -> "Console":
    """Standard output with colours; rich is imported for whoever prints in them."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False))


def print_table(
    rows: Iterable[Sequence[str]], titles: Sequence[str] = (), numbers: Container[int] = (), on: "Console | None" = None
) -> None:
    """Rows of cells, whose columns may have titles; those with these `numbers` stand at the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=bool(titles), pad_edge=False)
    for i, title in enumerate(titles):
        table.add_column(Text(title), justify="right" if i in numbers else "left")
    for row in rows:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))  # Chinese has no spaces to break a line at
    (on or console()).print(table)


def read_pairs_for(translator: "Translator", files: Sequence[Path]) -> "Iterator[Pair]":
    """The pairs of some files, in the languages of a translator."""
    from qkv.text import read_pairs

    about = translator.about
    return read_pairs(list(files), source=about.get("source") or None, target=about.get("target") or None)


def import_torch() -> None:
    """Without a search for garbage in the million objects that this makes: 0.2 s sooner, and at the end 0.4 s more."""
    check_addresses(LEAST, "torch")
    gc.disable()
    importlib.import_module("torch")
    gc.enable()
    gc.freeze()


def prepare(models: Iterable[Path], device: str, engine: str) -> None:
    """Import torch now, so, if the engine will need it for one of these models."""
    from qkv.engines import needs_torch

    if any(needs_torch(model, device, engine) for model in models):
        import_torch()


def opened(model: Path, device: str, command: str, **how: Any) -> Any:
    """What `qkv.load` gives, if it is of a task that this command is for."""
    from qkv.opening import check_asked, load

    prepare([model], device, how.get("engine", ENGINE))
    check_asked(model, command)
    return load(model, device, **how)
