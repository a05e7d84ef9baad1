"""What opening somebody else's model folder gives."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Converted:
    """Their folder as ours: a model by its name and settings, its weights, the tokenizer, and what is known of it."""

    architecture: str
    config: Any
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    about: dict[str, Any]
