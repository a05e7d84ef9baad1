"""The sizes of a stack of blocks, which check themselves once for all models."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from qkv.attention import where_it_can
from qkv.config import setting


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """Vaswani et al. 2017, Table 3, row "base", unless a model's own settings say otherwise."""

    vocab_size: int = setting(37000, "size of the joint vocabulary (read from the tokenizer)")
    d_model: int = setting(512, "width of the vectors that pass between blocks")
    d_ff: int = setting(2048, "width inside the feed-forward networks; 0 for 4 * d_model")
    n_heads: int = setting(8, "attention heads; d_model must be divisible by it")
    d_k: int = setting(0, "width of each head; 0 for d_model / n_heads")
    dropout: float = setting(0.1, "dropout of every sub-layer's output and of the embeddings")
    activation_dropout: float = setting(0.0, "dropout inside the feed-forward networks")
    activation: Literal["relu", "gelu", "gelu_tanh", "swish"] = setting(
        "relu", "inside the feed-forward networks: relu, gelu, gelu_tanh or swish"
    )
    norm: Literal["post", "pre"] = setting(
        "post", "layer norm after each residual (the paper) or before each sub-layer"
    )
    eps: float = setting(1e-5, "added to the variance in layer norms")
    position: str = setting("sinusoidal", "any name that `qkv list positions` prints, e.g. learned(length=64)")
    attention: str = setting("scaled_dot", "any name that `qkv list attention` prints, e.g. scaled_dot(dropout=0.1)")
    attention_bias: bool = setting(False, "biases in the attention projections (fairseq and Marian have them)")
    max_length: int = setting(1024, "longest sentence in tokens that the model takes")

    fast: ClassVar[bool] = False  # whether training takes forms that are faster and round otherwise: see kernels.py
    COUNTS: ClassVar[tuple[str, ...]] = ("vocab_size", "d_model", "n_heads", "max_length")  # at least 1 of each
    SHARES: ClassVar[tuple[str, ...]] = ("dropout", "activation_dropout")

    def __post_init__(self) -> None:
        for name in self.COUNTS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("d_k", "d_ff"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be a width, or 0 for the usual one, not {getattr(self, name)}")
        if self.eps <= 0:
            raise ValueError(f"eps must be above 0, not {self.eps}")
        self.check_heads()
        for name in self.SHARES:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")

    def check_heads(self) -> None:
        if not self.d_k and self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}")

    @property
    def head_width(self) -> int:
        return self.d_k or self.d_model // self.n_heads

    @property
    def inner_width(self) -> int:
        return self.d_ff or 4 * self.d_model

    def attention_of(self, use: str) -> str:
        """The attention that stands in the encoder, the decoder, or over the memory."""
        return where_it_can(self.attention, use)
