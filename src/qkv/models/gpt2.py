"""GPT-2, a decoder that writes on (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners")."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import Remembered, causal, drawing, together
from qkv.config import setting
from qkv.layers import Activation, Embedding, Norm, Projection, Seen, Stack, StackConfig, init_normal
from qkv.models.model import CausalBackbone, Outputs
from qkv.positions import Places
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class GPT2Config(StackConfig):
    """Radford et al. 2019, Table 2, the smallest, unless said otherwise.

    Differs: no dropout of the attention weights, for which the fused kernel has no place on a CPU;
    attention = "scaled_dot(dropout=0.1)" is transformers' default.
    """

    vocab_size: int = setting(50257, "size of the vocabulary (read from the tokenizer)")
    d_model: int = setting(768, "width of the vectors that pass between blocks")
    d_ff: int = setting(0, "width inside the feed-forward networks; 0 for 4 * d_model")
    n_heads: int = setting(12, "attention heads; d_model must be divisible by it")
    activation: Activation = setting("gelu_tanh", "inside the feed-forward networks: relu, gelu, gelu_tanh or swish")
    norm: Norm = setting("pre", "layer norm before each sub-layer (the paper) or after each residual")
    position: str = setting("learned", "any name that `qkv list positions` prints, e.g. rotary")
    attention_bias: bool = setting(True, "biases in the attention projections")
    max_length: int = setting(1024, "the context: longest text in tokens that the model takes")
    layers: int = setting(12, "blocks")
    tied: bool = setting(True, "one table for the tokens that are read and those that are written")
    silent: list[int] = setting([], "ids that it never writes: those of tokens that others' models do not have")

    fused = True


# tiny and small are ours; base is the paper's smallest, which it calls 117M and which has 124M parameters.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "layers": 4, "max_length": 256},
    "small": {"d_model": 256, "n_heads": 4, "layers": 6, "max_length": 512},
    "base": {"d_model": 768, "n_heads": 12, "layers": 12},
    "medium": {"d_model": 1024, "n_heads": 16, "layers": 24},
    "large": {"d_model": 1280, "n_heads": 20, "layers": 36},
    "xl": {"d_model": 1600, "n_heads": 25, "layers": 48},
}


@dataclass
class GPT2State(Remembered):
    """What each block has seen, how many tokens that is, and which of them are no padding."""

    seen: list[Seen]
    real: Tensor | None  # (B, S), or None if all are real
    length: int = 0


class GPT2(CausalBackbone):
    """Radford et al. 2019, section 2.3: GPT (Radford et al. 2018) with a norm before each sub-layer and a last one.

    Weights are drawn from N(0, 0.02), positions from N(0, 0.01) (the authors' code; transformers draws both alike), and
    what is added to the residuals is drawn smaller by 1 / sqrt(2 layers). The output shares the table of tokens,
    unless `tied` is off.
    """

    config_class = GPT2Config
    presets = PRESETS
    config: GPT2Config
    shown = "{c.layers} layers, {c.n_heads} heads, dropout {c.dropout}, context {c.max_length}{c.unusual}"

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.tokens = Embedding(config.vocab_size, config.d_model, scale=1.0)
        self.decoder = Stack(config, layers=config.layers, use="decoder")
        self.decoder.refuse_trees("running texts")
        self.projection = Projection(
            config.vocab_size, config.d_model, tied=self.tokens if config.tied else None, bias=False,
            silent=config.silent,
        )  # fmt: skip
        if not config.tied:
            nn.init.normal_(self.projection.weight, std=0.02)
        init_normal(self, positions=0.01, added=(2 * config.layers) ** -0.5)

    def forward(self, ids: Tensor, mask: Tensor | None = None, documents: Tensor | None = None) -> Outputs:
        with drawing() as choices:
            hidden = self.encode(ids, mask=mask, documents=documents)
        return Outputs(hidden, self.projection, choices)

    def encode(
        self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Token ids (B, T) -> hidden states (B, T, D). Padding on the right needs no mask, since nothing sees it."""
        return self.decoder(self.tokens(ids), *looking(ids, mask, documents))

    def start(self, given: Tensor) -> tuple[Tensor, GPT2State]:
        """Prompts (B, T), padded on the left: the last token of each, and the state before it."""
        real = given != PAD
        state = GPT2State([Seen() for _ in self.decoder.blocks], None if real.all() else real)
        if given.size(1) > 1:
            self.write(given[:, :-1], state)
        return given[:, -1], state

    def step(self, tokens: Tensor, state: GPT2State) -> Tensor:
        return self.projection(self.write(tokens[:, None], state)[:, -1])

    def write(self, ids: Tensor, state: GPT2State) -> Tensor:
        """The next tokens (B, T) -> hidden states (B, T, D); the state moves on."""
        start, state.length = state.length, state.length + ids.size(1)
        at, visible = Places.span(start, state.length, ids.device, causal=True), None
        if state.real is not None:
            state.real = F.pad(state.real, (0, max(0, state.length - state.real.size(1))), value=True)
            at, visible = looking(ids, state.real[:, : state.length], None)  # at these tokens and all before
        return self.decoder(self.tokens(ids), at, visible, seen=state.seen)


def looking(ids: Tensor, mask: Tensor | None, documents: Tensor | None) -> tuple[Places, Tensor | None]:
    """Where the tokens (B, T) stand, and what each may see: None if that is just what stands before it."""
    if documents is not None:
        index = torch.arange(ids.size(1), device=ids.device)
        is_first = torch.ones_like(documents, dtype=torch.bool)
        is_first[:, 1:] = documents[:, 1:] != documents[:, :-1]
        place = index - torch.where(is_first, index, 0).cummax(dim=1).values  # (B, T)
        at = Places(query=place, key=place, causal=True)
        same = together(documents)
        mask = same if mask is None else same & (mask if mask.dim() == 3 else mask[:, None])
    elif mask is not None and mask.dim() == 2:
        at = Places.counted(mask, ids.size(1), causal=True)
        mask = mask[:, None]
    else:
        at = Places.span(0, ids.size(1), ids.device, causal=True)
    return at, None if mask is None else causal(at) & mask[:, None]
