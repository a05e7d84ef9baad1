"""What a model is asked: each objective prepares a batch and computes a loss, and knows nothing of training."""

from typing import Any

from qkv.config import build, to_call
from qkv.errors import InputError
from qkv.objectives.answers import Choices, Classes, Cloze, Heads, Number, Spans, Tags
from qkv.objectives.causal_lm import CausalLM
from qkv.objectives.masked_lm import MaskedLM
from qkv.objectives.objective import NOTHING, Asked, Loss, Objective
from qkv.objectives.together import Together, terms
from qkv.objectives.translation import Translation

OBJECTIVES: dict[str, type[Any]] = {
    "translation": Translation,
    "causal_lm": CausalLM,
    "masked_lm": MaskedLM,
    "classes": Classes,
    "number": Number,
    "tags": Tags,
    "spans": Spans,
    "choices": Choices,
    "cloze": Cloze,
    "heads": Heads,
}


def objective(spec: str) -> Objective:
    """The objective that a recipe's text names: name, name(key=value), or a sum such as "classes + 0.5 * causal_lm"."""
    parts = named(spec)
    return parts[0][2] if len(parts) == 1 and parts[0][0] == 1 else Together(parts)


def in_full(spec: str) -> str:
    """The same text with every option of each objective, so that a later default does not change what it says."""
    parts = [(weight, name, {k: v for k, v in vars(one).items() if k[0] != "_"}) for weight, name, one in named(spec)]
    return " + ".join(f"{weight} * " * (weight != 1) + to_call(name, options) for weight, name, options in parts)


def named(spec: str) -> list[tuple[float, str, Objective]]:
    parts = []
    for weight, text in terms(spec):
        try:
            parts.append((weight, text.partition("(")[0], build(OBJECTIVES, text)))
        except ValueError as error:
            raise error if isinstance(error, InputError) else InputError(f"{text}: {error}") from None
    return parts
