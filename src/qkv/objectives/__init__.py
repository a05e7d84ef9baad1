"""What a model is asked: each objective prepares a batch and computes a loss, and knows nothing of training."""

from typing import Any

from qkv.objectives.causal_lm import CausalLM
from qkv.objectives.classes import Classes
from qkv.objectives.cloze import Cloze
from qkv.objectives.heads import Heads
from qkv.objectives.objective import Asked, Loss, Objective
from qkv.objectives.together import Together, build_objective, with_options
from qkv.objectives.translation import Translation

OBJECTIVES: dict[str, type[Any]] = {
    "translation": Translation,
    "causal_lm": CausalLM,
    "classes": Classes,
    "cloze": Cloze,
    "heads": Heads,
}


def objective(spec: str) -> Objective:
    """The objective that a recipe's text names, such as "classes + 0.5 * causal_lm"."""
    return build_objective(OBJECTIVES, spec)


def in_full(spec: str) -> str:
    """The same text with every option of each objective."""
    return with_options(OBJECTIVES, spec)


__all__ = [
    "OBJECTIVES",
    "Asked",
    "CausalLM",
    "Classes",
    "Cloze",
    "Heads",
    "Loss",
    "Objective",
    "Together",
    "Translation",
    "in_full",
    "objective",
]
