"""One file for each family of other people's models: their names of weights and ours, and their settings as ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.convert.families.marian import read_marian, write_hugging_face
from qkv.convert.foreign import Converted

# By the `model_type` of their config.json: (folder, config.json, model.safetensors) -> a model of ours.
FAMILIES: dict[str, Callable[[Path, dict[str, Any], dict[str, Tensor]], Converted]] = {
    "marian": read_marian,
    "pegasus": read_marian,
}
