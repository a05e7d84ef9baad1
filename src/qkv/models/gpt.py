"""GPT, the first of its name (Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training")."""

from dataclasses import dataclass
from typing import Any

from qkv.config import setting
from qkv.layers import Norm, init_normal
from qkv.models.gpt2 import GPT2, GPT2Config
from qkv.text.frames import FRAMES


@dataclass(frozen=True, kw_only=True)
class GPTConfig(GPT2Config):
    """Radford et al. 2018, section 4.1, unless said otherwise."""

    vocab_size: int = setting(40478, "size of the vocabulary (read from the tokenizer)")
    norm: Norm = setting("post", "layer norm after each residual (the paper) or before each sub-layer")
    max_length: int = setting(512, "the context: longest text in tokens that the model takes")


# tiny and small are ours, base is the paper's only one.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "layers": 4, "max_length": 256},
    "small": {"d_model": 256, "n_heads": 4, "layers": 6},
    "base": {"d_model": 768, "n_heads": 12, "layers": 12},
}


class GPT(GPT2):
    """Radford et al. 2018, section 3.1: the decoder of Vaswani et al. 2017 without a memory; section 3.3, Figure 1: a
    text is read as <s> A <cls>, two as <s> A <sep> B <cls>, and the state of <cls> stands for them.

    All weights are drawn from N(0, 0.02). Differs: in the authors' code positions are rows of the table of tokens, so
    that the softmax gives them some probability too, and the dropout of this table is that of the softmax.
    """

    config_class = GPTConfig
    presets = PRESETS
    config: GPTConfig
    frame = FRAMES["gpt"]

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        init_normal(self)
