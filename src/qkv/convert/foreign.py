"""What families of other people's models share: their folder and their names as ours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.text.tokenizer import Tokenizer

# Theirs and ours.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish", "gelu_new": "gelu_tanh",
               "gelu_pytorch_tanh": "gelu_tanh"}  # fmt: skip


@dataclass(frozen=True)
class Converted:
    """Their folder as ours: a model by its name and settings, its weights, the tokenizer, and what is known of it."""

    architecture: str
    config: Any
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    about: dict[str, Any]


def rename(name: str, names: Sequence[tuple[str, str]]) -> str | None:
    """Our name of their weight, by the first pattern that fits all of it; None if none does."""
    for pattern, ours in names:
        if found := re.fullmatch(pattern, name):
            return found.expand(ours)
    return None
