"""Llama: GPT-2 with newer parts (Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models")."""

from dataclasses import dataclass
from typing import Any

from qkv.config import setting
from qkv.layers import Activation
from qkv.models.gpt2 import GPT2, GPT2Config

ROUNDED = 256  # d_ff is a multiple of it (the authors' code)


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(GPT2Config):
    """Touvron et al. 2023, section 2.2 and Table 2, the smallest, unless said otherwise."""

    vocab_size: int = setting(32000, "size of the vocabulary (read from the tokenizer)")
    d_model: int = setting(4096, "width of the vectors that pass between blocks")
    d_ff: int = setting(0, "width inside the feed-forward networks; 0 for 2/3 of 4 * d_model, rounded up to 256s")
    n_heads: int = setting(32, "attention heads; d_model must be divisible by it")
    layers: int = setting(32, "blocks")
    dropout: float = setting(0.0, "dropout of every sub-layer's output and of the embeddings")
    activation: Activation = setting("swish", "of the gates inside the feed-forward networks")
    eps: float = setting(1e-6, "added to the mean square in norms")
    position: str = setting("rotary", "any name that `qkv list positions` prints, e.g. rotary(base=500000.0)")
    attention_bias: bool = setting(False, "biases in the attention projections")
    max_length: int = setting(2048, "the context: longest text in tokens that the model takes")
    tied: bool = setting(False, "one table for the tokens that are read and those that are written")

    rms = gated = True

    @property
    def inner_width(self) -> int:
        return self.d_ff or -(-8 * self.d_model // 3 // ROUNDED) * ROUNDED


# tiny and small are ours, the others are the paper's.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "layers": 4, "max_length": 256},
    "small": {"d_model": 256, "n_heads": 4, "layers": 6, "max_length": 512},
    "7b": {"d_model": 4096, "n_heads": 32, "layers": 32},
    "13b": {"d_model": 5120, "n_heads": 40, "layers": 40},
    "33b": {"d_model": 6656, "n_heads": 52, "layers": 60},
    "65b": {"d_model": 8192, "n_heads": 64, "layers": 80},
}


class Llama(GPT2):
    """Touvron et al. 2023, section 2.2: RMS norms before the sub-layers, SwiGLU, rotary positions, and no biases.

    Weights are drawn as GPT-2's, since the paper does not say.
    """

    config_class = LlamaConfig
    presets = PRESETS
    config: LlamaConfig
