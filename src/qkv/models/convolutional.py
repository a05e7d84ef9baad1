"""The convolutional encoder-decoder of "Convolutional Sequence to Sequence Learning" (Gehring et al. 2017)."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import Remembered, build_attention, padding
from qkv.config import build, setting
from qkv.errors import InputError
from qkv.layers import HALF, Convolution, Dropout, Gated, ModelConfig, receptive_field
from qkv.models.model import EncoderDecoder
from qkv.positions import POSITIONS, Places, Position
from qkv.text.tokenizer import PAD

DILATIONS = {"none": (1,), "bytenet": (1, 2, 4, 8)}  # of the layers, repeated; ByteNet: Kalchbrenner et al. 2016


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    """Gehring et al. 2017 as fairseq has it by default: 20 layers on each side, 512 wide, windows of 3.

    Differs: one width for embeddings and all layers, where the paper's largest models widen towards the top; and one
    table for source, target and output unless `tied` is "none", as in the paper.
    """

    encoder_layers: int = setting(20, "blocks of the encoder")
    decoder_layers: int = setting(20, "blocks of the decoder")
    kernel: int = setting(3, "tokens in the window of a convolution")
    dilation: Literal["none", "bytenet"] = setting(
        "none", "how far apart the tokens of a window are: 1 in every layer, or 1, 2, 4, 8 and again (bytenet)"
    )
    dropout: float = setting(0.1, "dropout of the embeddings, of every block's input and of the output")
    position: str = setting("learned", "a position that is added to the embeddings: learned, sinusoidal or none")
    attention: str = setting("dot", "attention over the source in every decoder block, or none for its mean")
    tied: Literal["all", "decoder", "none"] = setting("all", "which of source, target and output tables are one")
    output_bias: bool = setting(True, "a bias for each word of the vocabulary")
    max_length: int = setting(1024, "longest sentence in tokens that the model takes")

    def dilations(self, layers: int) -> list[int]:
        """The dilation of each of so many layers."""
        cycle = DILATIONS[self.dilation]
        return [cycle[i % len(cycle)] for i in range(layers)]

    @property
    def fields(self) -> list[int]:
        """How many tokens one place sees through the encoder, and through the decoder."""
        return [receptive_field(self.kernel, self.dilations(n)) for n in (self.encoder_layers, self.decoder_layers)]


# small: fairseq's model for IWSLT; base: its default; big: as many layers as the paper's English-German model, whose
# widths of 512 to 2048 are evened out.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.3},
    "small": {"d_model": 256, "encoder_layers": 4, "decoder_layers": 3, "dropout": 0.2},
    "base": {"d_model": 512, "encoder_layers": 20, "decoder_layers": 20, "dropout": 0.1},
    "big": {"d_model": 1024, "encoder_layers": 15, "decoder_layers": 15, "dropout": 0.1},
}


@dataclass
class Tail(Remembered):
    """The last inputs of one decoder convolution: as many as its window reaches back."""

    x: Tensor | None = None

    def extend(self, x: Tensor, reach: int) -> Tensor:
        """The new inputs (B, T, D) behind those that their windows reach back to; before the first, zeros."""
        joined = F.pad(x, (0, 0, reach, 0)) if self.x is None else torch.cat((self.x, x), dim=1)
        self.x = joined[:, joined.size(1) - reach :]
        return joined  # (B, reach + T, D)


@dataclass
class ConvolutionalState(Remembered):
    """What the decoder looks at, the tail of each of its blocks, and how many tokens have been read."""

    keys: Tensor  # (B, S, D): what the encoder has made of the source
    values: Tensor  # (B, S, D): that and the embeddings
    mask: Tensor  # (B, 1, 1, S): True at real tokens
    tails: list[Tail]
    length: int = 0


class MultiStep(nn.Module):
    """Gehring et al. 2017, section 3.3, Eq. 1 and 2: each decoder layer looks at the source for itself.

    q = (W h + g) * sqrt(0.5), h the layer's state and g the target's embedding; weights = softmax(q . z), z the
    encoder's output; context = sum of weights * values; the result is (W' context * s sqrt(1/s) + h) * sqrt(0.5),
    where s counts the source tokens (section 3.5). Without attention all scores are 0: every place gets the same mean.
    """

    def __init__(self, c: ConvolutionalConfig) -> None:
        super().__init__()
        attends = c.attention != "none"
        self.query = Convolution(c.d_model, c.d_model) if attends else None
        self.output = Convolution(c.d_model, c.d_model)
        self.attend = build_attention(c.attention if attends else "dot", c, "memory")

    def forward(self, x: Tensor, embedded: Tensor, at: Places, state: ConvolutionalState) -> Tensor:
        q = (self.query(x) + embedded) * HALF if self.query else torch.zeros_like(x)  # (B, T, D)
        k, v = state.keys[:, None], state.values[:, None]  # (B, 1, S, D)
        context = self.attend(q[:, None], k, v, at.over(state.keys), state.mask)[:, 0]  # (B, T, D)
        s = state.mask[:, 0].sum(dim=-1, keepdim=True).to(v.dtype)  # (B, 1, 1); s * sqrt(1 / s) is its root
        return (self.output(context * s.sqrt()) + x) * HALF


class ConvolutionalBlock(nn.Module):
    """A gated convolution, attention over the source (decoders only), a residual around both."""

    def __init__(self, c: ConvolutionalConfig, *, dilation: int, has_memory: bool) -> None:
        super().__init__()
        self.gated = Gated(c.d_model, kernel=c.kernel, dilation=dilation, dropout=c.dropout)
        self.memory_attention = MultiStep(c) if has_memory else None

    def forward(self, x: Tensor, embedded: Tensor, at: Places, state: ConvolutionalState | None, i: int) -> Tensor:
        reach = self.gated.reach
        if self.memory_attention is None or state is None:
            y = self.gated(F.pad(x, (0, 0, reach // 2, reach - reach // 2)))  # (B, S, D): as far to either side
        else:
            y = self.gated(state.tails[i].extend(x, reach))  # (B, T, D): only what stands before
            y = self.memory_attention(y, embedded, at, state)
        return (y + x) * HALF


class ConvolutionalStack(nn.Module):
    """Positions, a linear map, N blocks and another linear map: an encoder or a decoder (Gehring et al. 2017, 3.2)."""

    def __init__(self, c: ConvolutionalConfig, *, layers: int, has_memory: bool) -> None:
        super().__init__()
        self.position = build(POSITIONS, c.position, c)
        own, hooks = type(self.position), ("rotate", "score", "value")  # of a self-attention, which is not here
        if own.needs_tree or any(getattr(own, hook) is not getattr(Position, hook) for hook in hooks):
            raise InputError(
                f"{c.position!r} is not a position for a convolutional model, which only adds positions to its "
                "embeddings; use learned, sinusoidal or none"
            )
        for table in self.position.parameters():
            nn.init.normal_(table, std=0.1)
        self.dropout = Dropout(c.dropout)
        self.enter = Convolution(c.d_model, c.d_model, dropout=c.dropout)
        self.blocks = nn.ModuleList(
            ConvolutionalBlock(c, dilation=dilation, has_memory=has_memory) for dilation in c.dilations(layers)
        )
        self.leave = Convolution(c.d_model, c.d_model)

    def forward(
        self, x: Tensor, at: Places, real: Tensor | None = None, state: ConvolutionalState | None = None
    ) -> tuple[Tensor, Tensor]:
        """Embedded tokens (B, T, D) -> the last layer's, and the embeddings with their positions.

        `real` (B, T, 1) is True at real tokens: the others are zeroed before every layer, as if the text ended there.
        """
        embedded = self.dropout(self.position.embed(x, at))
        x = self.enter(embedded)
        for i, block in enumerate(self.blocks):
            x = x if real is None else x.masked_fill(~real, 0)
            x = block(x, embedded, at, state, i)
        return self.leave(x), embedded


class Convolutional(EncoderDecoder):
    """Gehring et al. 2017 (ConvS2S), Figure 1: stacked word windows with gates, attention in every decoder layer."""

    config_class = ConvolutionalConfig
    presets = PRESETS
    config: ConvolutionalConfig
    shown = (
        "{c.encoder_layers}+{c.decoder_layers} layers that see {c.fields[0]} and {c.fields[1]} "
        "tokens, {c.attention} attention, dropout {c.dropout}"
    )

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        for table in (self.source, self.target):  # section 3.5: N(0, 0.1), read as they are
            nn.init.normal_(table.weight, std=0.1)
            table.scale = 1.0
        self.encoder = ConvolutionalStack(config, layers=config.encoder_layers, has_memory=False)
        self.decoder = ConvolutionalStack(config, layers=config.decoder_layers, has_memory=True)
        self.dropout = Dropout(config.dropout)
        # Differs: no weight normalisation here, since the table may be shared and losses project by it.
        self.vocabulary = self.output()

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The keys and values that the decoder looks at, both (B, S, D), and their mask (B, 1, 1, S)."""
        at = Places.span(0, src.size(1), src.device)
        keys, embedded = self.encoder(self.source(src), at, (src != PAD)[:, :, None])
        if keys.requires_grad:  # section 3.5: every attention sends one back; the embeddings get theirs whole
            scale = 1 / (2 * self.config.decoder_layers)
            keys.register_hook(lambda gradient: gradient * scale)
        return keys, (keys + embedded) * HALF, padding(src, PAD)

    def read(self, src: Tensor) -> ConvolutionalState:
        return ConvolutionalState(*self.encode(src), tails=[Tail() for _ in self.decoder.blocks])

    def write(self, x: Tensor, at: Places, state: ConvolutionalState) -> Tensor:
        return self.dropout(self.decoder(x, at, state=state)[0])
