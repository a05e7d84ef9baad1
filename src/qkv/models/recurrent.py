"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015), and without it."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from qkv.attention import Remembered, build_attention, padding
from qkv.config import setting
from qkv.layers import CellState, Dropout, ModelConfig, Recurrence, init_xavier
from qkv.models.model import EncoderDecoder
from qkv.positions import Places
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    """OpenNMT's sizes, two layers of 500, unless said otherwise."""

    d_model: int = setting(500, "width of the embeddings and of each layer's state")
    encoder_layers: int = setting(2, "layers of the encoder")
    decoder_layers: int = setting(2, "layers of the decoder")
    cell: Literal["lstm", "gru", "rnn"] = setting("lstm", "what each layer is made of")
    bidirectional: bool = setting(True, "read the source in both directions")
    decoder: Literal["luong", "bahdanau"] = setting("luong", "look at the source after each state (luong) or before it")
    input_feeding: bool = setting(True, "luong: each step also reads what the last one gave")
    attention: str = setting("general", "any name that `qkv list attention` prints, or none: one vector for a sentence")
    dropout: float = setting(0.3, "dropout of the embeddings, between layers and of the output")
    tied: Literal["all", "decoder", "none"] = setting("all", "which of source, target and output tables are one")
    output_bias: bool = setting(False, "a bias for each word of the vocabulary")
    max_length: int = setting(1024, "longest sentence in tokens that the model takes")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoder == "bahdanau" and self.attention == "none":
            raise ValueError("decoder='bahdanau' reads a context at each step, attention='none' has none; use luong")


# base: OpenNMT's defaults; big: Luong et al. 2015, section 4.1; tiny: as many parameters as the tiny Transformer.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 192, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3},
    "small": {"d_model": 256, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.2},
    "base": {"d_model": 500, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.3},
    "big": {"d_model": 1000, "encoder_layers": 4, "decoder_layers": 4, "dropout": 0.2, "bidirectional": False},
}


@dataclass
class RecurrentState(Remembered):
    """The memory and its mask, the state of each decoder layer, the last h~, and how many tokens have been read."""

    memory: Tensor  # (B, S, D)
    memory_mask: Tensor  # (B, 1, 1, S)
    layers: list[CellState]
    fed: Tensor  # (B, D)
    length: int = 0

    @property
    def top(self) -> Tensor:
        """The state s that looks at the source: the last layer's h, (B, 1, D)."""
        return self.layers[-1][0][:, None]


class Decoder(nn.Module):
    """What both decoders are made of: recurrent layers, attention over the memory, and h~ = tanh(W_c [c; s])."""

    def __init__(self, c: RecurrentConfig) -> None:
        super().__init__()
        self.recurrence = Recurrence(c.cell, c.d_model, c.d_model, layers=c.decoder_layers, dropout=c.dropout)
        self.memory_attention = None if c.attention == "none" else build_attention(c.attention, c, "memory")
        joined = c.d_model if self.memory_attention is None else 2 * c.d_model
        self.combine = nn.Linear(joined, c.d_model, bias=False)
        self.between = Dropout(c.dropout)
        feeds, rows = c.input_feeding or c.decoder == "bahdanau", self.recurrence.cell.gates * c.d_model
        self.feed: Any = nn.Linear(c.d_model, rows, bias=False) if feeds else None

    def forward(self, x: Tensor, state: RecurrentState, at: Places) -> Tensor:
        """Embedded target words (B, T, D) -> h~ of each (B, T, D); the state moves on."""
        raise NotImplementedError

    def look(self, s: Tensor, state: RecurrentState, at: Places) -> Tensor:
        """The context (B, T, D) that the states s (B, T, D) find in the memory; without attention, of no width."""
        if self.memory_attention is None:
            return s[..., :0]
        memory = state.memory[:, None]  # (B, 1, S, D): keys and values of one head
        return self.memory_attention(s[:, None], memory, memory, at, state.memory_mask)[:, 0]

    def attentional(self, context: Tensor, s: Tensor) -> Tensor:
        """Luong et al. 2015, Eq. 5: h~ = tanh(W_c [c; s])."""
        return self.combine(torch.cat((context, s.to(context.dtype)), dim=-1)).tanh()

    def masks(self, x: Tensor) -> list[Tensor | None]:
        """Dropout between layers for each step of x (B, T, D), drawn at once: T of (layers - 1, B, D), or of None."""
        (B, T, D), gaps = x.shape, self.recurrence.layers.num_layers - 1
        if not (self.training and self.between.level and gaps):
            return [None] * T
        return list(self.between.mask(x.new_empty(T, gaps, B, D)))


class Luong(Decoder):
    """Luong et al. 2015, section 3: s_t = cell([y_t; h~_t-1], s_t-1), c_t from s_t, h~_t = tanh(W_c [c_t; s_t]).

    Without input feeding, h~_t-1 is left out and nothing but the cells waits for the step before.
    """

    def forward(self, x: Tensor, state: RecurrentState, at: Places) -> Tensor:
        if self.feed is None:
            s, state.layers = self.recurrence(x, state.layers)
            return self.attentional(self.look(s, state, at), s)
        hidden = []
        for wx, masks, place in zip(self.recurrence.project(x).unbind(1), self.masks(x), at.query, strict=True):
            state.layers = self.recurrence.step(wx + self.feed(state.fed), state.layers, masks)
            context = self.look(state.top, state, replace(at, query=place[None]))
            state.fed = self.attentional(context, state.top)[:, 0]
            hidden.append(state.fed)
        return torch.stack(hidden, dim=1)


class Bahdanau(Decoder):
    """Bahdanau et al. 2015, section 3.1: c_t from s_t-1, then s_t = cell([y_t; c_t], s_t-1).

    Differs: the words are told from tanh(W_c [c_t; s_t]) as in Luong's decoder, where the paper has a maxout layer.
    """

    def forward(self, x: Tensor, state: RecurrentState, at: Places) -> Tensor:
        contexts, tops = [], []
        for wx, masks, place in zip(self.recurrence.project(x).unbind(1), self.masks(x), at.query, strict=True):
            contexts.append(self.look(state.top, state, replace(at, query=place[None])))
            state.layers = self.recurrence.step(wx + self.feed(contexts[-1][:, 0]), state.layers, masks)
            tops.append(state.top)
        return self.attentional(torch.cat(contexts, dim=1), torch.cat(tops, dim=1))


DECODERS: dict[str, type[Decoder]] = {"luong": Luong, "bahdanau": Bahdanau}


class Recurrent(EncoderDecoder):
    """Luong et al. 2015, Bahdanau et al. 2015: a recurrent encoder, and a recurrent decoder that looks back at it.

    With attention = "none" it is Sutskever et al. 2014: all that the decoder knows of the source is its first state.
    """

    config_class = RecurrentConfig
    presets = PRESETS
    config: RecurrentConfig
    shown = (
        "{c.encoder_layers}+{c.decoder_layers} layers of {c.cell}, {c.decoder}, "
        "{c.attention} attention, dropout {c.dropout}"
    )

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        c, d, both = config, config.d_model, config.bidirectional
        self.dropout = Dropout(c.dropout)
        self.encoder = Recurrence(c.cell, d, d, layers=c.encoder_layers, dropout=c.dropout, bidirectional=both)
        self.decoder = DECODERS[c.decoder](c)
        is_wide = both and c.attention != "none"
        self.memory = nn.Linear(2 * d, d, bias=False) if is_wide else nn.Identity()
        states = self.encoder.cell.states if both else 0
        self.bridges = nn.ModuleList(nn.Linear(2 * d, d) for _ in range(states))  # of h, and of an LSTM's c
        self.vocabulary = self.output()
        init_xavier(self)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor, list[CellState]]:
        """The memory (B, S, D), its mask (B, 1, 1, S), and the last state of each layer and direction."""
        outputs, last = self.encoder(self.dropout(self.source(src)), lengths=(src != PAD).sum(dim=1))
        return self.memory(outputs), padding(src, PAD), last

    def read(self, src: Tensor) -> RecurrentState:
        memory, mask, last = self.encode(src)
        return RecurrentState(memory, mask, self.first(last), fed=memory.new_zeros(len(src), self.config.d_model))

    def first(self, last: list[CellState]) -> list[CellState]:
        """The decoder's first state: the encoder's last, layer by layer from the top; the lowest serves any more."""
        if self.bridges:
            pairs = zip(last[::2], last[1::2], strict=True)  # forwards, backwards
            last = [
                tuple(bridge(torch.cat(both, dim=-1)) for bridge, *both in zip(self.bridges, *pair, strict=True))
                for pair in pairs
            ]
        layers, more = self.config.decoder_layers, self.config.encoder_layers - self.config.decoder_layers
        return [last[max(0, layer + more)] for layer in range(layers)]

    def write(self, x: Tensor, at: Places, state: RecurrentState) -> Tensor:
        return self.dropout(self.decoder(self.dropout(x), state, at.over(state.memory)))
