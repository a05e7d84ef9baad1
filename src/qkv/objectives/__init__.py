"""What a model is asked: each objective prepares a batch and computes a loss, and knows nothing of training."""

from qkv.objectives.translation import Loss, Translation

OBJECTIVES: dict[str, type[Translation]] = {
    "translation": Translation,
}

__all__ = ["OBJECTIVES", "Loss", "Translation"]
