"""One paper, one file; chosen by the names in MODELS."""

from qkv.models.awd_lstm import AWDLSTM, AWDLSTMConfig
from qkv.models.bert import Bert, BertConfig
from qkv.models.convolutional import Convolutional, ConvolutionalConfig
from qkv.models.elmo import Elmo, ElmoConfig
from qkv.models.ernie2 import Ernie2, Ernie2Config
from qkv.models.ernie_thu import ErnieThu, ErnieThuConfig
from qkv.models.gpt import GPT, GPTConfig
from qkv.models.gpt2 import GPT2, GPT2Config
from qkv.models.head_finder import HeadFinder, HeadFinderConfig
from qkv.models.headed import Headed, HeadedOutputs
from qkv.models.hierarchical import Hierarchical, HierarchicalConfig
from qkv.models.llama import Llama, LlamaConfig
from qkv.models.model import (
    Backbone,
    CausalBackbone,
    EncoderDecoder,
    Model,
    Outputs,
    SequenceToSequence,
    State,
    Writes,
    count_parameters,
)  # fmt: skip
from qkv.models.reader import Reader, ReaderConfig, Reading
from qkv.models.recurrent import Recurrent, RecurrentConfig
from qkv.models.roberta import Roberta, RobertaConfig
from qkv.models.ssru import SSRU, SSRUConfig
from qkv.models.transe import TransE, TransEConfig
from qkv.models.transformer import PRESETS, Transformer, TransformerConfig, TransformerEncoder, parameter_count
from qkv.models.unilm import UniLM, UniLMConfig
from qkv.models.xlnet import XLNet, XLNetConfig

MODELS: dict[str, type[Model]] = {
    "transformer": Transformer,
    "recurrent": Recurrent,
    "convolutional": Convolutional,
    "ssru": SSRU,
    "transformer_encoder": TransformerEncoder,
    "gpt": GPT,
    "gpt2": GPT2,
    "llama": Llama,
    "bert": Bert,
    "roberta": Roberta,
    "ernie2": Ernie2,
    "ernie_thu": ErnieThu,
    "elmo": Elmo,
    "unilm": UniLM,
    "xlnet": XLNet,
    "awd_lstm": AWDLSTM,
    "hierarchical": Hierarchical,
    "reader": Reader,
    "head_finder": HeadFinder,
    "transe": TransE,
}


def architecture_of(model: Model) -> str:
    """The name in MODELS of a model, or of the backbone that its heads stand on."""
    kind = type(model.backbone if isinstance(model, Headed) else model)
    return next(name for one in kind.__mro__ for name, known in MODELS.items() if known is one)
