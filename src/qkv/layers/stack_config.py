"""The sizes of a model, which check themselves once for all models."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting, split_calls
from qkv.errors import InputError
from qkv.memory import all_memory

Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
# gelu: Hendrycks & Gimpel 2016, as in BERT; gelu_tanh: its approximation by tanh, as in GPT; swish: Ramachandran et al.
# 2017, as in Marian.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swish": F.silu,
}
Norm = Literal["post", "pre"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Settings in which a whole number is a count, at least 1, and any other a share, below 1; one head by default."""

    vocab_size: int = setting(37000, "size of the joint vocabulary (read from the tokenizer)")
    d_model: int = setting(512, "width of the vectors that pass between blocks")

    OTHER: ClassVar[tuple[str, ...]] = ()  # numbers that are neither

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), None if field.name in self.OTHER else field.type
            if kind is int and value < 1:
                raise InputError(f"{field.name} must be at least 1, not {value}")
            if kind is float and not 0 <= value < 1:
                raise InputError(f"{field.name} must be at least 0 and below 1, not {value}")
        if 4 * self.least_parameters > all_memory():
            raise InputError(
                f"a model of these sizes has more than {self.least_parameters:,} parameters, which do not fit into the "
                "memory of this machine; make it smaller"
            )

    @property
    def least_parameters(self) -> int:
        """Fewer than the model has: those of its vocabulary, and of the squares of its layers."""
        layers = sum(getattr(self, name, 0) for name in ("layers", "encoder_layers", "decoder_layers"))
        return self.d_model * self.vocab_size + layers * self.d_model**2

    @property
    def n_heads(self) -> int:
        return 1

    @property
    def head_width(self) -> int:
        return self.d_model


@dataclass(frozen=True, kw_only=True)
class StackConfig(ModelConfig):
    """Vaswani et al. 2017, Table 3, row "base", unless a model's own settings say otherwise."""

    d_ff: int = setting(2048, "width inside the feed-forward networks; 0 for 4 * d_model")
    n_heads: int = setting(8, "attention heads; d_model must be divisible by it")
    d_k: int = setting(0, "width of each head; 0 for d_model / n_heads")
    dropout: float = setting(0.1, "dropout of every sub-layer's output and of the embeddings")
    activation_dropout: float = setting(0.0, "dropout inside the feed-forward networks")
    activation: Activation = setting("relu", "inside the feed-forward networks: relu, gelu, gelu_tanh or swish")
    norm: Norm = setting("post", "layer norm after each residual (the paper) or before each sub-layer")
    eps: float = setting(1e-5, "added to the variance in layer norms")
    position: str = setting("sinusoidal", "any name that `qkv list positions` prints, e.g. learned(length=64)")
    attention: str = setting(
        "scaled_dot", "any name that `qkv list attention` prints, e.g. scaled_dot(dropout=0.1); several, by turns: a, b"
    )
    attention_bias: bool = setting(False, "biases in the attention projections (fairseq and Marian have them)")
    max_length: int = setting(1024, "longest sentence in tokens that the model takes")

    fused: ClassVar[bool] = False  # see AttentionSizes
    rms: ClassVar[bool] = False  # whether norms divide by the root mean square alone, as in Llama
    gated: ClassVar[bool] = False  # whether feed-forward networks are gated ones, without biases
    OTHER: ClassVar[tuple[str, ...]] = ("d_ff", "d_k", "eps")

    def __post_init__(self) -> None:
        for name in ("d_k", "d_ff"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be a width, or 0 for the usual one, not {getattr(self, name)}")
        if self.eps <= 0:
            raise InputError(f"eps must be above 0, not {self.eps}")
        super().__post_init__()
        self.check_heads()

    def check_heads(self) -> None:
        if not self.d_k and self.d_model % self.n_heads:
            raise InputError(f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}")

    @property
    def head_width(self) -> int:
        return self.d_k or self.d_model // self.n_heads

    @property
    def inner_width(self) -> int:
        return self.d_ff or 4 * self.d_model

    @property
    def unusual(self) -> str:
        """The position and the attention, where they are not the usual ones of the model."""
        named = {"positions": (self.position, type(self).position), "attention": (self.attention, type(self).attention)}
        return "".join(f", {chosen} {part}" for part, (chosen, usual) in named.items() if chosen != usual)

    def attention_of(self, use: str, layer: int = 0) -> str:
        """The attention of a layer of the encoder or the decoder, or over the memory: of several, by turns."""
        return turn(self.attention, layer)


def turn(specs: str, layer: int) -> str:
    texts = split_calls(specs)
    return texts[layer % len(texts)]
