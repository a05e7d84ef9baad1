"""GPT-2 as decoding runs it: the same numbers as `models.GPT2`, with less work for each token."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.engines.beams import Prompted
from qkv.engines.lean import COMPILED, EAGER, Dense, LeanDecoder, LeanWriter, Product, joined, normalised
from qkv.models import GPT2
from qkv.positions import Places
from qkv.text.tokenizer import PAD

ROWS = 32  # that the layout of packed weights is chosen for; it serves any number


class Packed(nn.Module):
    """The product with weights that oneDNN has laid out beforehand: of a large vocabulary it takes half the time."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
        self.bias, self.activation = bias, COMPILED[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], ""))


def packed(name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
    """As it is where torch was built without oneDNN."""
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return Packed(weight, bias, activation)
    return Dense(name, weight, bias, activation)


class LeanGPT2(LeanWriter):
    """A standard GPT-2's `start` and `step`."""

    def __init__(self, model: GPT2, eager: float = EAGER) -> None:
        c = self.config = model.config
        self.decoder, self.eager = LeanDecoder("decoder", model.decoder, packed, c.activation), eager
        self.blocks = list(self.decoder.blocks)
        self.table, self.norm = model.tokens.weight.detach(), normalised(model.decoder.norm)
        empty = torch.zeros(1, c.max_length, c.d_model)
        self.placed = model.decoder.position.embed(empty, Places.span(0, c.max_length, empty.device))[0].detach()
        self.vocabulary = joined("vocabulary", packed, model.projection)

    def start(self, given: Tensor) -> tuple[Tensor, Prompted]:
        """Prompts (B, T), padded on the left: the last token of each, and what the others leave."""
        before, c = given[:, :-1], self.config
        real, shape = before != PAD, list(before.shape)
        cache = torch.empty(c.layers, 2, len(given), c.n_heads, shape[1], c.head_width)
        if shape[1]:
            x = F.embedding(before, self.table) + F.embedding((real.cumsum(dim=1) - 1).clamp(min=0), self.placed)
            x, mask = x.flatten(0, 1), None if real.all() else self.visible(real)
            for layer, block in enumerate(self.blocks):
                x = block.read(x, shape, None, mask, cache[layer])
        return given[:, -1], Prompted(cache, real)

    def visible(self, real: Tensor) -> Tensor:
        """(B, 1, T, T): what stands before a token and is no padding; padding sees itself, and stays a number."""
        T = real.size(1)
        causal = torch.ones(T, T, dtype=torch.bool).tril()
        return (causal & real[:, None] | torch.eye(T, dtype=torch.bool))[:, None]

    def embed(self, tokens: Tensor, seen: Prompted) -> Tensor:
        return seen.arranged(F.embedding(tokens, self.table) + F.embedding(seen.places(), self.placed))
