"""The shared blocks that models are made of."""

from qkv.layers.block import Block, BlockSizes, Seen
from qkv.layers.dropout import Dropout
from qkv.layers.embedding import Embedding, Vocabulary
from qkv.layers.feed_forward import FeedForward
from qkv.layers.residual import Residual
from qkv.layers.stack import Stack

__all__ = ["Block", "BlockSizes", "Dropout", "Embedding", "FeedForward", "Residual", "Seen", "Stack", "Vocabulary"]
