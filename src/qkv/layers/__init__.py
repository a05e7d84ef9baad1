"""The shared blocks that models are made of."""

from qkv.layers.characters import BEGIN_SENTENCE, BEGIN_WORD, END_SENTENCE, END_WORD, NO_LETTER, CharacterCNN
from qkv.layers.convolution import HALF, Convolution, Gated, receptive_field
from qkv.layers.dropout import Dropout, VariationalDropout
from qkv.layers.embedding import NEVER, Embedding, Inputs, NoProjection, Prediction, Projection
from qkv.layers.heads import HEADS, Head, pooled
from qkv.layers.initialisation import init_normal, init_xavier
from qkv.layers.recurrent import CELLS, CellState, ProjectedLSTM, Recurrence
from qkv.layers.stack import Block, FeedForward, GatedFeedForward, Residual, Seen, Stack, attentions
from qkv.layers.stack_config import ACTIVATIONS, Activation, ModelConfig, Norm, StackConfig, turn
