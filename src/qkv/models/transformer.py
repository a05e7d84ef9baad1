"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), and its encoder by itself for fine-tuning."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from qkv.attention import Remembered, causal, drawing, padding, sentence_numbers, visible, where_it_can
from qkv.config import build, setting
from qkv.layers import Embedding, Seen, Stack, StackConfig, attentions, init_xavier, turn
from qkv.models.model import Backbone, EncoderDecoder, Outputs, count_parameters
from qkv.positions import POSITIONS, Places
from qkv.text.tokenizer import EOS, PAD


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(StackConfig):
    """Table 3, row "base", unless said otherwise."""

    encoder_layers: int = setting(6, "blocks of the encoder")
    decoder_layers: int = setting(6, "blocks of the decoder")
    encoder_attention: str = setting("", "another attention for the encoder; empty for the same, where it can stand")
    memory_attention: str = setting("", "another attention of the decoder over the source; empty for the same")
    sentence_ends: list[int] = setting([], "ids after which a new sentence begins (read from the tokenizer)")
    tied: Literal["all", "decoder", "none"] = setting("all", "which of source, target and output tables are one")
    output_bias: bool = setting(False, "a bias for each word of the vocabulary (Marian has one)")
    source_end: bool = setting(
        True, "whether the mark of an end is read behind a source (OpenNMT-py's models do without)"
    )

    def attention_of(self, use: str, layer: int = 0) -> str:
        apart = {"encoder": self.encoder_attention, "memory": self.memory_attention}.get(use)
        return turn(apart, layer) if apart else where_it_can(super().attention_of(use, layer), use)


# base and big: Table 3 of the paper; tiny: the published text-only Multi30k baseline of 2.6 M parameters.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "n_heads": 4, "encoder_layers": 4, "decoder_layers": 4, "dropout": 0.3},
    "small": {"d_model": 256, "d_ff": 1024, "n_heads": 4, "encoder_layers": 3, "decoder_layers": 3, "dropout": 0.1},
    "base": {"d_model": 512, "d_ff": 2048, "n_heads": 8, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.3},
}
# Kasai et al. 2021: most of the layers where all tokens are read at once, one where they are written one by one.
PRESETS |= {
    "tiny_6_1": {**PRESETS["tiny"], "encoder_layers": 6, "decoder_layers": 1},
    "tiny_12_1": {**PRESETS["tiny"], "encoder_layers": 12, "decoder_layers": 1},
    "small_6_1": {**PRESETS["small"], "encoder_layers": 6, "decoder_layers": 1},
    "small_12_1": {**PRESETS["small"], "encoder_layers": 12, "decoder_layers": 1},
    "base_6_1": {**PRESETS["base"], "encoder_layers": 6, "decoder_layers": 1},
    "base_12_1": {**PRESETS["base"], "encoder_layers": 12, "decoder_layers": 1},
}


@dataclass
class TransformerState(Remembered):
    """The memory and its mask, how many tokens have been read, and what each decoder block has seen of them."""

    memory: Tensor  # (B, S, D)
    memory_mask: Tensor  # (B, 1, 1, S)
    length: int = 0
    seen: list[Seen] = field(default_factory=list)  # empty where all are read at once: nothing is kept


class Transformer(EncoderDecoder):
    """Vaswani et al. 2017, Figure 1: an encoder stack over the source, a decoder stack over target and memory."""

    config_class = TransformerConfig
    presets = PRESETS
    config: TransformerConfig
    shown = "{c.encoder_layers}+{c.decoder_layers} layers, {c.n_heads} heads, dropout {c.dropout}{c.unusual}"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Stack(config, layers=config.encoder_layers)
        self.decoder = Stack(config, layers=config.decoder_layers, use="decoder", has_memory=True)
        self.encoder.refuse_trees("translation pairs")
        self.vocabulary = self.output()
        init_xavier(self)

    def forward(self, src: Tensor, tgt: Tensor, places: Tensor | None = None) -> Outputs:
        """With `places` (B, T), rising in each row, target tokens stand there and not one behind the other from 0."""
        if places is None:
            return super().forward(src, tgt)
        with drawing() as choices:
            hidden = self.write(self.target(tgt), Places(places, places, causal=True), self.read(src))
        return Outputs(hidden, self.vocabulary, choices)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, D) and its mask (B, 1, 1, S)."""
        src = ended(src, self.config)
        mask = padding(src, PAD)
        return self.encoder(self.source(src), reading(src, self.config), mask), mask

    def read(self, src: Tensor) -> TransformerState:
        return TransformerState(*self.encode(src))

    def start(self, given: Tensor) -> tuple[Tensor, TransformerState]:
        first, state = super().start(given)
        state.seen = [Seen() for _ in self.decoder.blocks]
        return first, state

    def write(self, x: Tensor, at: Places, state: TransformerState) -> Tensor:
        # Padding stands at the end, so no real token sees it through the causal mask.
        mask = causal(at) if x.size(1) > 1 else None
        return self.decoder(x, at, mask, state.memory, state.memory_mask, state.seen)


class TransformerEncoder(Backbone):
    """Vaswani et al. 2017, Figure 1, left. Its weights have the names that they have in a whole Transformer."""

    config_class = TransformerConfig
    presets = PRESETS
    config: TransformerConfig
    shown = "{c.encoder_layers} layers, {c.n_heads} heads, dropout {c.dropout}"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.source = Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, layers=config.encoder_layers)
        self.encoder.refuse_trees("texts")
        init_xavier(self)

    def forward(self, ids: Tensor, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.encode(ids, segments=segments, mask=mask)

    def encode(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self.encoder(self.source(ids), reading(ids, self.config), visible(ids, mask, PAD))


def ended(src: Tensor, c: TransformerConfig) -> Tensor:
    """Sources (B, S), each with its </s>, as the model reads them."""
    return src if c.source_end else src.masked_fill(src == EOS, PAD)


def reading(ids: Tensor, c: TransformerConfig) -> Places:
    """Where the tokens (B, S) of a text stand, and in which of its sentences if their ends are known."""
    sentence = sentence_numbers(ids, c.sentence_ends) if c.sentence_ends else None
    return Places.span(0, ids.size(1), ids.device, sentence=sentence)


def parameter_count(c: TransformerConfig) -> int:
    """The closed form of section B of the paper's Table 3: what `Transformer(c)` holds, without building it."""
    d, f, inner, bias = c.d_model, c.inner_width, c.n_heads * c.head_width, int(c.attention_bias)
    attention = 4 * d * inner + bias * (3 * inner + d)
    feed_forward = 2 * d * f + f + d
    with torch.device("meta"):  # what a chosen part brings along: its size without its weights
        position = build(POSITIONS, c.position, c)
        uses = {"encoder": c.encoder_layers, "decoder": c.decoder_layers, "memory": c.decoder_layers}
        parts = sum(count_parameters(attentions(c, use, layers)) for use, layers in uses.items())
    encoder = c.encoder_layers * (attention + feed_forward + 2 * 2 * d)
    decoder = c.decoder_layers * (2 * attention + feed_forward + 3 * 2 * d)
    last_norms = 2 * 2 * d if c.norm == "pre" else 0
    tables = {"all": 1, "decoder": 2, "none": 3}[c.tied] * c.vocab_size * d
    positions = count_parameters(position) * (c.encoder_layers + c.decoder_layers if position.per_layer else 2)
    return encoder + decoder + parts + last_norms + tables + positions + int(c.output_bias) * c.vocab_size
