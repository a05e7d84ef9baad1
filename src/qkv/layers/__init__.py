"""The shared blocks that models are made of."""

from qkv.layers.block import Block, Seen
from qkv.layers.convolution import Convolution, Gated, receptive_field
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import Embedding, Inputs, Projection
from qkv.layers.feed_forward import ACTIVATIONS, FeedForward
from qkv.layers.heads import HEADS, Head
from qkv.layers.initialisation import init_normal, init_xavier
from qkv.layers.recurrent import CELLS, CellState, Recurrence
from qkv.layers.residual import Residual
from qkv.layers.stack import Stack
from qkv.layers.stack_config import StackConfig

__all__ = [
    "ACTIVATIONS",
    "CELLS",
    "HEADS",
    "Block",
    "CellState",
    "Convolution",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Gated",
    "Head",
    "Inputs",
    "Projection",
    "Recurrence",
    "Residual",
    "Seen",
    "Stack",
    "StackConfig",
    "init_normal",
    "init_xavier",
    "receptive_field",
]
