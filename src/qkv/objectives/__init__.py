"""What a model is asked: each objective prepares a batch and computes a loss, and knows nothing of training."""

from qkv.objectives.objective import Loss, Objective
from qkv.objectives.translation import Translation

OBJECTIVES: dict[str, type[Translation]] = {
    "translation": Translation,
}

__all__ = ["OBJECTIVES", "Loss", "Objective", "Translation"]
