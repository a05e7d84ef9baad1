"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from qkv.attention import build_attention, causal, drawing, padding, sentence_numbers
from qkv.config import build, setting
from qkv.layers import Embedding, Projection, Seen, Stack, StackConfig, init_xavier
from qkv.models.model import EncoderDecoder, Outputs
from qkv.positions import POSITIONS, Places
from qkv.text.tokenizer import BOS, PAD


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

    COUNTS = (*StackConfig.COUNTS, "encoder_layers", "decoder_layers")

    def attention_of(self, use: str) -> str:
        apart = {"encoder": self.encoder_attention, "memory": self.memory_attention}
        return apart.get(use) or super().attention_of(use)


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


class TransformerState:
    """The memory's mask, what each decoder block has seen, and how many tokens have been read."""

    def __init__(self, memory: Tensor, memory_mask: Tensor, layers: int) -> None:
        self.memory, self.memory_mask = memory, memory_mask
        self.seen = [Seen() for _ in range(layers)]
        self.length = 0

    def reorder(self, rows: Tensor) -> None:
        self.memory, self.memory_mask = self.memory[rows], self.memory_mask[rows]
        for seen in self.seen:
            seen.reorder(rows)


class Transformer(EncoderDecoder):
    """Vaswani et al. 2017, Figure 1: an encoder stack over the source, a decoder stack over target and memory."""

    config_class = TransformerConfig
    presets = PRESETS
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        c = config
        self.source = Embedding(c.vocab_size, c.d_model)
        self.target = self.source if c.tied == "all" else Embedding(c.vocab_size, c.d_model)
        self.encoder = Stack(c, layers=c.encoder_layers)
        self.decoder = Stack(c, layers=c.decoder_layers, use="decoder", has_memory=True)
        self.encoder.refuse_trees("translation pairs")
        tied = None if c.tied == "none" else self.target
        self.vocabulary = Projection(c.vocab_size, c.d_model, tied=tied, bias=c.output_bias)
        init_xavier(self)

    def forward(self, src: Tensor, tgt: Tensor) -> Outputs:
        with drawing() as choices:
            memory, memory_mask = self.encode(src)
            at = Places.span(0, tgt.size(1), tgt.device, causal=True)
            # Padding stands at the end, so no real token sees it through the causal mask.
            hidden = self.decoder(self.target(tgt), at, causal(at), memory, memory_mask)
        return Outputs(hidden, self.vocabulary, choices)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, D) and its mask (B, 1, 1, S)."""
        mask = padding(src, PAD)
        return self.encoder(self.source(src), reading(src, self.config), mask), mask

    def start(self, given: Tensor) -> tuple[Tensor, TransformerState]:
        memory, memory_mask = self.encode(given)
        first = given.new_full((len(given),), BOS)
        return first, TransformerState(memory, memory_mask, len(self.decoder.blocks))

    def sizes(self) -> str:
        c = self.config
        layers = f"{c.encoder_layers}+{c.decoder_layers} layers"
        chosen = [f"{name} positions" for name in [c.position] if name != "sinusoidal"]
        chosen += [f"{name} attention" for name in [c.attention] if name != "scaled_dot"]
        return ", ".join([f"d_model {c.d_model}", layers, f"{c.n_heads} heads", f"dropout {c.dropout}", *chosen])

    def step(self, tokens: Tensor, state: TransformerState) -> Tensor:
        at = Places.span(state.length, state.length + 1, tokens.device, causal=True)
        x = self.target(tokens[:, None])  # (B, 1, D)
        hidden = self.decoder(x, at, None, state.memory, state.memory_mask, state.seen)
        state.length += 1
        logits: Tensor = self.vocabulary(hidden[:, -1])
        return logits  # (B, V)


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
        own, read, memory = (
            count_parameters(build_attention(c.attention_of(use), c, use)) for use in ("decoder", "encoder", "memory")
        )
    encoder = c.encoder_layers * (attention + read + feed_forward + 2 * 2 * d)
    decoder = c.decoder_layers * (2 * attention + own + memory + feed_forward + 3 * 2 * d)
    last_norms = 2 * 2 * d if c.norm == "pre" else 0
    tables = {"all": 1, "decoder": 2, "none": 3}[c.tied] * c.vocab_size * d
    positions = count_parameters(position) * (c.encoder_layers + c.decoder_layers if position.per_layer else 2)
    return encoder + decoder + last_norms + tables + positions + int(c.output_bias) * c.vocab_size


def count_parameters(model: nn.Module) -> int:
    """Every weight once, however many names share it."""
    return sum(p.numel() for p in model.parameters())
