"""The shared blocks that models are made of."""

from qkv.layers.block import Block, BlockSizes, Seen
from qkv.layers.convolution import Convolution, Gated, receptive_field
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import Embedding, Vocabulary
from qkv.layers.feed_forward import ACTIVATIONS, FeedForward
from qkv.layers.recurrent import CELLS, CellState, Recurrence
from qkv.layers.residual import Residual
from qkv.layers.stack import Stack

__all__ = [
    "ACTIVATIONS",
    "CELLS",
    "Block",
    "BlockSizes",
    "CellState",
    "Convolution",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Gated",
    "Recurrence",
    "Residual",
    "Seen",
    "Stack",
    "Vocabulary",
    "receptive_field",
]
