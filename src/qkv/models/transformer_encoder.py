"""The encoder of a Transformer by itself: what fine-tuning takes from a translator."""

from torch import Tensor

from qkv.attention import padding
from qkv.layers import Embedding, Stack, init_xavier
from qkv.models.model import Backbone
from qkv.models.transformer import PRESETS, TransformerConfig, reading
from qkv.text.tokenizer import PAD


class TransformerEncoder(Backbone):
    """Vaswani et al. 2017, Figure 1, left. Its weights have the names that they have in a whole Transformer."""

    config_class = TransformerConfig
    presets = PRESETS
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.source = Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, layers=config.encoder_layers)
        self.encoder.refuse_trees("texts")
        init_xavier(self)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.encode(ids, segments=segments, mask=mask)

    def encode(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        visible = padding(ids, PAD) if mask is None else mask[:, None, None] if mask.dim() == 2 else mask[:, None]
        hidden: Tensor = self.encoder(self.source(ids), reading(ids, self.config), visible)
        return hidden

    def sizes(self) -> str:
        c = self.config
        return f"d_model {c.d_model}, {c.encoder_layers} layers, {c.n_heads} heads, dropout {c.dropout}"
