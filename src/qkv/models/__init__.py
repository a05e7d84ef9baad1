"""One paper, one file; chosen by the names in MODELS."""

from qkv.models.model import Decodable, Model, Outputs, State
from qkv.models.transformer import PRESETS, Transformer, TransformerConfig, count_parameters, parameter_count

MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
}

__all__ = [
    "MODELS",
    "PRESETS",
    "Decodable",
    "Model",
    "Outputs",
    "State",
    "Transformer",
    "TransformerConfig",
    "count_parameters",
    "parameter_count",
]
