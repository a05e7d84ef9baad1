"""One file for each family of other people's models: their names of weights and settings, and ours."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import Tensor

from qkv.config import Tree
from qkv.convert.families.bert import BERT, BIG_BIRD, DISTILBERT, ERNIE, ERNIE2, ROBERTA, XLM_ROBERTA
from qkv.convert.families.gpt import GPT, GPT2
from qkv.convert.families.llama import LLAMA, read_llama
from qkv.convert.families.marian import read_marian
from qkv.convert.families.xlnet import XLNET
from qkv.convert.family import read, task_of_class
from qkv.convert.foreign import Converted
from qkv.convert.sentence import sentence_settings


def read_ernie(folder: Path, tree: Tree, theirs: dict[str, Tensor]) -> Converted:
    return read(ERNIE2 if tree.get("use_task_id") else ERNIE, folder, tree, theirs)


BACKBONES = {
    each.model_type: each for each in (BERT, ROBERTA, XLM_ROBERTA, DISTILBERT, ERNIE, BIG_BIRD, GPT, GPT2, LLAMA, XLNET)
}
# By the `model_type` of their config.json: (folder, config.json, model.safetensors) -> a model of ours.
FAMILIES: dict[str, Callable[[Path, Tree, dict[str, Tensor]], Converted]] = {
    "marian": read_marian,
    "pegasus": read_marian,
    **{name: partial(read, each) for name, each in BACKBONES.items()},
    "ernie": read_ernie,
    "llama": read_llama,
}


def their_task(folder: Path, tree: Tree) -> str:
    """What the model of a folder of theirs is for."""
    if (family := BACKBONES.get(tree["model_type"])) is None:
        return "translate"
    return str(sentence_settings(folder).get("task", task_of_class(family, tree)))
