"""BERT, an encoder that reads both ways (Devlin et al. 2019, "Pre-training of Deep Bidirectional Transformers")."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.attention import drawing, visible
from qkv.config import setting
from qkv.errors import InputError
from qkv.layers import Activation, Inputs, NoProjection, Prediction, Stack, StackConfig, init_normal
from qkv.models.model import Backbone, Outputs
from qkv.positions import Places
from qkv.text.frames import FRAMES
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class BertConfig(StackConfig):
    """Devlin et al. 2019, section 3, BERT base, unless said otherwise.

    Differs: no dropout of the attention weights, for which the fused kernel has no place on a CPU;
    attention = "scaled_dot(dropout=0.1)" is the paper's.
    """

    vocab_size: int = setting(30522, "size of the vocabulary (read from the tokenizer)")
    d_model: int = setting(768, "width of the vectors that pass between blocks")
    d_ff: int = setting(0, "width inside the feed-forward networks; 0 for 4 * d_model")
    n_heads: int = setting(12, "attention heads; d_model must be divisible by it")
    activation: Activation = setting("gelu", "inside the feed-forward networks: relu, gelu, gelu_tanh or swish")
    eps: float = setting(1e-12, "added to the variance in layer norms")
    position: str = setting("learned", "any name that `qkv list positions` prints, e.g. rotary")
    attention_bias: bool = setting(True, "biases in the attention projections")
    max_length: int = setting(512, "longest text in tokens that the model takes")
    layers: int = setting(12, "blocks")
    segments: int = setting(2, "vectors that tell the first text from the second; 0 for none (DistilBERT)")
    predicts: bool = setting(True, "whether it has what predicts hidden words")

    fused = True
    OTHER = (*StackConfig.OTHER, "segments")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segments < 0:
            raise InputError(f"segments must be at least 0, not {self.segments}")


# tiny to medium: Turc et al. 2019, "Well-Read Students Learn Better"; base and large: Devlin et al. 2019.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 2, "layers": 2},
    "mini": {"d_model": 256, "n_heads": 4, "layers": 4},
    "small": {"d_model": 512, "n_heads": 8, "layers": 4},
    "medium": {"d_model": 512, "n_heads": 8, "layers": 8},
    "base": {"d_model": 768, "n_heads": 12, "layers": 12},
    "large": {"d_model": 1024, "n_heads": 16, "layers": 24},
}


class Bert(Backbone):
    """Devlin et al. 2019, section 3 and Figure 2: token, segment and position are added and normalised, then blocks of
    the Transformer's encoder with GELU.

    Weights are drawn from N(0, 0.02). What predicts hidden words shares the table of tokens.
    """

    config_class = BertConfig
    presets = PRESETS
    config: BertConfig
    shown = "{c.layers} layers, {c.n_heads} heads, dropout {c.dropout}, context {c.max_length}{c.unusual}"
    frame = FRAMES["bert"]
    pool = "first"
    dense = True

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.tokens = Inputs(config.vocab_size, config.d_model, segments=config.segments)
        self.encoder = Stack(config, layers=config.layers, norm_inputs=True)
        self.encoder.refuse_trees("texts")
        self.projection: Any = NoProjection()
        if config.predicts:
            self.projection = Prediction(
                config.vocab_size, config.d_model, tied=self.tokens, activation=config.activation, eps=config.eps
            )
        init_normal(self)

    def forward(self, ids: Tensor, **given: Any) -> Outputs:
        """Token ids (B, T), some of them <mask>, and what else it reads: for each, what should stand there."""
        with drawing() as choices:
            hidden = self.encode(ids, **given)
        return Outputs(hidden, self.projection, choices)

    def encode(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.read(self.tokens(ids, segments), ids, mask)

    def read(
        self, x: Tensor, ids: Tensor, mask: Tensor | None, pairs: Tensor | None = None, **beside: Tensor
    ) -> Tensor:
        """Embedded tokens (B, T, D) of some ids -> hidden states; `pairs` (B, T, T) are what a model sees at most. What
        stands `beside` the tokens is for its stack."""
        at = Places.span(0, ids.size(1), ids.device)
        if mask is not None and mask.dim() == 2:
            at = Places.counted(mask, ids.size(1))
        seen = visible(ids, mask, PAD)
        if pairs is not None:
            seen = pairs[:, None] if seen is None else pairs[:, None] & seen
        return self.encoder(x, at, seen, **beside)
