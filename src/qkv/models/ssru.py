"""The student of "From Research to Production and Back" (Kim et al. 2019): a Transformer that writes with a recurrence.

Marian's fast models, and the translators in Firefox, are of this form.
"""

from dataclasses import dataclass, field

from torch import Tensor

from qkv.attention import Remembered, padding
from qkv.config import setting
from qkv.errors import InputError
from qkv.layers import Stack, init_xavier
from qkv.layers.ssru import RecurrentStack, SeenBefore
from qkv.models.model import EncoderDecoder
from qkv.models.transformer import TransformerConfig, ended, reading
from qkv.positions import Places
from qkv.text.tokenizer import PAD

# tiny: the students of Firefox, 6 blocks that read and 2 that write.
PRESETS = {
    "tiny": {"d_model": 256, "d_ff": 1536, "n_heads": 8, "encoder_layers": 6, "decoder_layers": 2, "dropout": 0.1},
}


@dataclass(frozen=True, kw_only=True)
class SSRUConfig(TransformerConfig):
    """A Transformer's settings; `attention` is that of the encoder, and of the decoder over the source."""

    decoder_layers: int = setting(2, "blocks of the decoder")


@dataclass
class SSRUState(Remembered):
    """The memory and its mask, how many tokens have been read, and what each decoder block has seen of them."""

    memory: Tensor  # (B, S, D)
    memory_mask: Tensor  # (B, 1, 1, S)
    seen: list[SeenBefore]
    length: int = field(default=0)


class SSRU(EncoderDecoder):
    """Kim et al. 2019, section 3: the encoder of Vaswani et al. 2017; a decoder whose self-attention is a simpler
    simple
    recurrent unit, so that a step costs the same however much was written."""

    config_class = SSRUConfig
    presets = PRESETS
    config: SSRUConfig
    shown = "{c.encoder_layers}+{c.decoder_layers} layers, {c.n_heads} heads, dropout {c.dropout}{c.unusual}"

    def __init__(self, config: SSRUConfig) -> None:
        super().__init__(config)
        self.encoder = Stack(config, layers=config.encoder_layers)
        self.encoder.refuse_trees("translation pairs")
        self.decoder = RecurrentStack(config, layers=config.decoder_layers)
        if self.encoder.position.per_layer:
            raise InputError(f"position={config.position!r} is one for each layer, which ssru has not; take another")
        self.vocabulary = self.output()
        init_xavier(self)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, D) and its mask (B, 1, 1, S)."""
        src = ended(src, self.config)
        mask = padding(src, PAD)
        return self.encoder(self.source(src), reading(src, self.config), mask), mask

    def read(self, src: Tensor) -> SSRUState:
        return SSRUState(*self.encode(src), [SeenBefore() for _ in self.decoder.blocks])

    def write(self, x: Tensor, at: Places, state: SSRUState) -> Tensor:
        return self.decoder(x, at, state.memory, state.memory_mask, state.seen)
