"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015), and without it."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from qkv.attention import build_attention, drawing, padding
from qkv.config import setting
from qkv.layers import CellState, Dropout, Embedding, Projection, Recurrence, init_xavier
from qkv.models.model import EncoderDecoder, Outputs
from qkv.positions import Places
from qkv.text.tokenizer import BOS, PAD


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """OpenNMT's sizes, two layers of 500, unless said otherwise."""

    vocab_size: int = setting(37000, "size of the joint vocabulary (read from the tokenizer)")
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
        for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {self.dropout}")
        if self.decoder == "bahdanau" and self.attention == "none":
            raise ValueError("decoder='bahdanau' reads a context at each step, attention='none' has none; use luong")

    @property
    def n_heads(self) -> int:
        return 1

    @property
    def head_width(self) -> int:
        return self.d_model


# base: OpenNMT's defaults; big: Luong et al. 2015, section 4.1; tiny: as many parameters as the tiny Transformer.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 192, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3},
    "small": {"d_model": 256, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.2},
    "base": {"d_model": 500, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.3},
    "big": {"d_model": 1000, "encoder_layers": 4, "decoder_layers": 4, "dropout": 0.2, "bidirectional": False},
}


@dataclass
class RecurrentState:
    """The memory and its mask, the state of each decoder layer, the last h~, and how many tokens have been read."""

    memory: Tensor  # (B, S, D)
    memory_mask: Tensor  # (B, 1, 1, S)
    layers: list[CellState]
    fed: Tensor  # (B, D)
    length: int = 0

    def reorder(self, rows: Tensor) -> None:
        self.memory, self.memory_mask, self.fed = self.memory[rows], self.memory_mask[rows], self.fed[rows]
        self.layers = [tuple(part[rows] for part in layer) for layer in self.layers]

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

    def forward(self, x: Tensor, state: RecurrentState, at: Places) -> Tensor:
        """Embedded target words (B, T, D) -> h~ of each (B, T, D); the state moves on."""
        raise NotImplementedError

    def look(self, s: Tensor, state: RecurrentState, at: Places) -> Tensor:
        """The context (B, T, D) that the states s (B, T, D) find in the memory; without attention, of no width."""
        if self.memory_attention is None:
            return s[..., :0]
        memory = state.memory[:, None]  # (B, 1, S, D): keys and values of one head
        context: Tensor = self.memory_attention(s[:, None], memory, memory, at, state.memory_mask)
        return context[:, 0]

    def attentional(self, context: Tensor, s: Tensor) -> Tensor:
        """Luong et al. 2015, Eq. 5: h~ = tanh(W_c [c; s])."""
        joined: Tensor = self.combine(torch.cat((context, s.to(context.dtype)), dim=-1))
        return joined.tanh()

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

    def __init__(self, c: RecurrentConfig) -> None:
        super().__init__(c)
        gates = self.recurrence.cell.gates
        self.feed = nn.Linear(c.d_model, gates * c.d_model, bias=False) if c.input_feeding else None

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

    def __init__(self, c: RecurrentConfig) -> None:
        super().__init__(c)
        self.feed = nn.Linear(c.d_model, self.recurrence.cell.gates * c.d_model, bias=False)

    def forward(self, x: Tensor, state: RecurrentState, at: Places) -> Tensor:
        contexts, tops = [], []
        for wx, masks, place in zip(self.recurrence.project(x).unbind(1), self.masks(x), at.query, strict=True):
            contexts.append(self.look(state.top, state, replace(at, query=place[None])))
            state.layers = self.recurrence.step(wx + self.feed(contexts[-1][:, 0]), state.layers, masks)
            tops.append(state.top)
        return self.attentional(torch.cat(contexts, dim=1), torch.cat(tops, dim=1))


DECODERS: dict[str, type[Decoder]] = {
    "luong": Luong,
    "bahdanau": Bahdanau,
}


class Recurrent(EncoderDecoder):
    """Luong et al. 2015, Bahdanau et al. 2015: a recurrent encoder, and a recurrent decoder that looks back at it.

    With attention = "none" it is Sutskever et al. 2014: all that the decoder knows of the source is its first state.
    """

    config_class = RecurrentConfig
    presets = PRESETS
    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        c, d = config, config.d_model
        self.source = Embedding(c.vocab_size, d)
        self.target = self.source if c.tied == "all" else Embedding(c.vocab_size, d)
        self.dropout = Dropout(c.dropout)
        self.encoder = Recurrence(
            c.cell, d, d, layers=c.encoder_layers, dropout=c.dropout, bidirectional=c.bidirectional
        )
        self.decoder = DECODERS[c.decoder](c)
        is_wide = c.bidirectional and c.attention != "none"
        self.memory: nn.Module = nn.Linear(2 * d, d, bias=False) if is_wide else nn.Identity()
        states = self.encoder.cell.states if c.bidirectional else 0
        self.bridges = nn.ModuleList(nn.Linear(2 * d, d) for _ in range(states))  # of h, and of an LSTM's c
        self.vocabulary = Projection(
            c.vocab_size, d, tied=None if c.tied == "none" else self.target, bias=c.output_bias
        )
        init_xavier(self)

    def forward(self, src: Tensor, tgt: Tensor) -> Outputs:
        with drawing() as choices:
            hidden = self.decode(tgt, self.start(src)[1])
        return Outputs(hidden, self.vocabulary, choices)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor, list[CellState]]:
        """The memory (B, S, D), its mask (B, 1, 1, S), and the last state of each layer and direction."""
        outputs, last = self.encoder(self.dropout(self.source(src)), lengths=(src != PAD).sum(dim=1))
        return self.memory(outputs), padding(src, PAD), last

    def start(self, given: Tensor) -> tuple[Tensor, RecurrentState]:
        memory, mask, last = self.encode(given)
        fed = memory.new_zeros(len(given), self.config.d_model)
        return given.new_full((len(given),), BOS), RecurrentState(memory, mask, self.first(last), fed)

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

    def decode(self, tgt: Tensor, state: RecurrentState) -> Tensor:
        """The next target ids (B, T) -> hidden states (B, T, D); the state moves on."""
        stop = state.length + tgt.size(1)
        at = Places.span(state.length, stop, tgt.device).over(state.memory)
        hidden = self.decoder(self.dropout(self.target(tgt)), state, at)
        state.length = stop
        dropped: Tensor = self.dropout(hidden)
        return dropped

    def step(self, tokens: Tensor, state: RecurrentState) -> Tensor:
        logits: Tensor = self.vocabulary(self.decode(tokens[:, None], state)[:, -1])
        return logits  # (B, V)

    def sizes(self) -> str:
        c = self.config
        layers = f"{c.encoder_layers}+{c.decoder_layers} layers of {c.cell}"
        return f"d_model {c.d_model}, {layers}, {c.decoder}, {c.attention} attention, dropout {c.dropout}"
