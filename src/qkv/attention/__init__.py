"""Who looks at whom, and how.

Shape letters, here and in every comment of qkv: B batch, T query length, S key length, H heads, K head width, D model
width, F feed-forward width, V vocabulary, W beams.
"""

from qkv.attention.cache import KeyValues
from qkv.attention.masks import causal, from_blocked, padding
from qkv.attention.multi_head import ATTENTIONS, AttentionSizes, MultiHead
from qkv.attention.scaled_dot import ScaledDot

__all__ = ["ATTENTIONS", "AttentionSizes", "KeyValues", "MultiHead", "ScaledDot", "causal", "from_blocked", "padding"]
