"""Who looks at whom, and how.

Shape letters, here and in every comment of qkv: B batch, T query length, S key length, H heads, K head width, D model
width, F feed-forward width, V vocabulary, W beams.
"""

from qkv.attention.choose import ATTENTIONS, NAMED, STRUCTURES, build_attention, where_it_can
from qkv.attention.hard import Choice, drawing
from qkv.attention.local import sentence_numbers
from qkv.attention.masks import (
    LEFT_TO_RIGHT,
    RIGHT_TO_LEFT,
    SOURCE,
    TARGET,
    bigbird_blocks,
    causal,
    from_blocked,
    padding,
    permuted,
    prefix,
    together,
    unified,
    visible,
)  # fmt: skip
from qkv.attention.multi_head import AttentionSizes, KeyValues, MultiHead, Remembered
from qkv.attention.recording import Maps, recording
from qkv.attention.scores import SCORES
from qkv.attention.soft import Soft
