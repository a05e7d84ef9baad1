"""One file for each family of other people's models: their names of weights and settings, and ours."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.convert.families.bert import BERT, DISTILBERT, ERNIE, ERNIE2, ROBERTA, XLM_ROBERTA
from qkv.convert.families.gpt import GPT, GPT2
from qkv.convert.families.marian import read_marian
from qkv.convert.family import read
from qkv.convert.foreign import Converted


def read_ernie(folder: Path, tree: dict[str, Any], theirs: dict[str, Tensor]) -> Converted:
    return read(ERNIE2 if tree.get("use_task_id") else ERNIE, folder, tree, theirs)


# By the `model_type` of their config.json: (folder, config.json, model.safetensors) -> a model of ours.
FAMILIES: dict[str, Callable[[Path, dict[str, Any], dict[str, Tensor]], Converted]] = {
    "marian": read_marian,
    "pegasus": read_marian,
    "ernie": read_ernie,
    **{each.model_type: partial(read, each) for each in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, GPT, GPT2)},
}
