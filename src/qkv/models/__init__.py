"""One paper, one file; chosen by the names in MODELS."""

from qkv.models.convolutional import Convolutional, ConvolutionalConfig
from qkv.models.gpt2 import GPT2, GPT2Config
from qkv.models.head_finder import HeadFinder, HeadFinderConfig
from qkv.models.headed import Headed, HeadedOutputs
from qkv.models.hierarchical import Hierarchical, HierarchicalConfig
from qkv.models.model import Backbone, CausalBackbone, EncoderDecoder, Model, Outputs, State, Writes
from qkv.models.reader import Reader, ReaderConfig, Reading
from qkv.models.recurrent import Recurrent, RecurrentConfig
from qkv.models.transformer import PRESETS, Transformer, TransformerConfig, count_parameters, parameter_count
from qkv.models.transformer_encoder import TransformerEncoder

MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "convolutional": Convolutional,
    "transformer_encoder": TransformerEncoder,
    "gpt2": GPT2,
    "hierarchical": Hierarchical,
    "reader": Reader,
    "head_finder": HeadFinder,
}

__all__ = [
    "GPT2",
    "MODELS",
    "PRESETS",
    "Backbone",
    "CausalBackbone",
    "Convolutional",
    "ConvolutionalConfig",
    "EncoderDecoder",
    "GPT2Config",
    "HeadFinder",
    "HeadFinderConfig",
    "Headed",
    "HeadedOutputs",
    "Hierarchical",
    "HierarchicalConfig",
    "Model",
    "Outputs",
    "Reader",
    "ReaderConfig",
    "Reading",
    "Recurrent",
    "RecurrentConfig",
    "State",
    "Transformer",
    "TransformerConfig",
    "TransformerEncoder",
    "Writes",
    "count_parameters",
    "parameter_count",
]
