"""AWD-LSTM, the language model of ULMFiT and SiATL (Merity et al. 2018; Howard & Ruder 2018)."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import Remembered
from qkv.config import setting
from qkv.layers import Dropout, Embedding, ModelConfig, Projection, Recurrence, VariationalDropout
from qkv.models.model import CausalBackbone, Outputs
from qkv.text.tokenizer import PAD

Carried = tuple[Tensor, ...]  # h and c of each layer, from below: (B, its width)


@dataclass(frozen=True, kw_only=True)
class AWDLSTMConfig(ModelConfig):
    """Howard & Ruder 2018, section 4.1, and the authors' code for language models, unless said otherwise."""

    vocab_size: int = setting(30000, "size of the vocabulary (read from the tokenizer)")
    d_model: int = setting(400, "width of the embeddings and of the last layer, which share one table of words")
    d_hidden: int = setting(1150, "width of the layers below the last one")
    layers: int = setting(3, "LSTM layers")
    input_dropout: float = setting(0.25, "dropout of what the first layer reads; one mask for all tokens of a text")
    hidden_dropout: float = setting(0.15, "dropout between layers; one mask for all tokens of a text")
    output_dropout: float = setting(0.1, "dropout of what the last layer gives; one mask for all tokens of a text")
    weight_dropout: float = setting(0.2, "DropConnect: values of the recurrent matrices that are dropped")
    embedding_dropout: float = setting(0.02, "words that are dropped wherever they stand in a batch")
    max_length: int = setting(1400, "longest text in tokens; to learn a longer one, gradients reach its last tokens")


# base is the paper's; tiny and small are ours.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "d_hidden": 256, "layers": 3},
    "small": {"d_model": 200, "d_hidden": 400, "layers": 3},
    "base": {"d_model": 400, "d_hidden": 1150, "layers": 3},
}


@dataclass(frozen=True)
class LSTMOutputs(Outputs):
    """With what the last layer gave before dropout, (B, T, D)."""

    raw: Tensor


@dataclass
class LSTMState(Remembered):
    """Between two steps of decoding."""

    carried: Carried


class AWDLSTM(CausalBackbone):
    """Merity et al. 2018, section 3-4: embeddings, LSTM layers, and a softmax with a bias that shares their table.

    Five dropouts: of words, of what the layers read and give (one mask for all tokens of a text, section 4.2), and of
    the recurrent matrices (section 2). The state after a text can be given with the one that goes on from it.

    Differs: torch's first weights, but for forget gates that begin open. SiATL (Chronopoulou et al. 2019) has two
    layers of 1,000 and a linear layer down to 400 before the softmax; here the last layer has the width of the table.
    """

    config_class = AWDLSTMConfig
    presets = PRESETS
    config: AWDLSTMConfig
    learns_by = "causal_lm + 2 * activation + temporal_activation"
    shown = "{c.layers} LSTM layers, {c.d_hidden} wide inside, recurrent weights dropped {c.weight_dropout}"
    pool = "concat"
    class_head = "concat_classes"
    endless = True
    new_rows = "mean"

    def __init__(self, config: AWDLSTMConfig) -> None:
        super().__init__(config)
        c = config
        self.tokens = Embedding(c.vocab_size, c.d_model, scale=1.0)
        self.widths = [c.d_model, *[c.d_hidden] * (c.layers - 1), c.d_model]
        self.layers = nn.ModuleList(
            Recurrence("lstm", below, width, layers=1, weight_dropout=c.weight_dropout)
            for below, width in pairwise(self.widths)
        )
        self.projection = Projection(c.vocab_size, c.d_model, tied=self.tokens, bias=True)
        self.embedding_dropout = Dropout(c.embedding_dropout)
        self.input_dropout, self.hidden_dropout, self.output_dropout = map(
            VariationalDropout, (c.input_dropout, c.hidden_dropout, c.output_dropout)
        )

    def forward(self, ids: Tensor, mask: Tensor | None = None, state: Carried = ()) -> LSTMOutputs:  # type: ignore[override]
        """Token ids (B, T) after those that left the `state`: for each, what should come next."""
        hidden, raw, state = self.read(ids, state)
        return LSTMOutputs(hidden, self.projection, [], raw, state=state)

    def encode(
        self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None, state: Carried = ()
    ) -> Tensor:
        """Padding on the right needs no mask, since no token sees what comes after it.

        Howard & Ruder 2018, section 3.3 (BPT3C): of a long text, the last `max_length` tokens are learned from, and
        those before them only leave their state. Differs: the authors also cut gradients at every 70th token.
        """
        first = ids.size(1) - self.config.max_length if self.training else 0
        if first <= 0:
            return self.read(ids, state)[0]
        with torch.no_grad():
            before, _, state = self.read(ids[:, :first], state)
        return torch.cat([before, self.read(ids[:, first:], state)[0]], dim=1)

    def read(self, ids: Tensor, state: Carried = ()) -> tuple[Tensor, Tensor, Carried]:
        """Ids (B, T) -> what the last layer gives with dropout and without, (B, T, D), and the state after them."""
        x = self.input_dropout(self.embed(ids))
        given = list(zip(state[::2], state[1::2], strict=True))
        left, raw = list[Tensor](), x
        for i, layer in enumerate(self.layers):
            raw, [after] = layer(x, given[i : i + 1] or None)
            x = raw if i + 1 == len(self.layers) else self.hidden_dropout(raw)
            left += after
        return self.output_dropout(raw), raw, tuple(left)

    def embed(self, ids: Tensor) -> Tensor:
        """Merity et al. 2018, section 4.3: a word is dropped wherever it stands in a batch; (B, T) -> (B, T, D)."""
        x, dropout = self.tokens(ids), self.embedding_dropout
        if not self.training or dropout.level == 0:
            return x
        return x * dropout.mask(self.tokens.weight[:, :1].detach())[ids]

    def start(self, given: Tensor) -> tuple[Tensor, LSTMState]:
        """Prompts (B, T), padded on the left: the last token of each, and the state before it."""
        carried = tuple(self.tokens.weight.new_zeros(len(given), width) for width in self.widths[1:] for _ in "hc")
        sizes = (given != PAD).sum(dim=1) - 1
        for size in sizes.unique().tolist():
            if size > 0:
                rows = sizes == size
                for whole, some in zip(carried, self.read(given[rows, -1 - size : -1])[2], strict=True):
                    whole[rows] = some
        return given[:, -1], LSTMState(carried)

    def step(self, tokens: Tensor, state: LSTMState) -> Tensor:
        hidden, _, state.carried = self.read(tokens[:, None], state.carried)
        return self.projection(hidden[:, -1])
