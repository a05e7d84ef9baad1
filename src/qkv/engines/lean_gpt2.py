"""GPT-2 as decoding runs it: the same numbers as `models.GPT2`, with less work for each token."""

from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.engines.beams import ROOM, Beams
from qkv.engines.lean import COMPILED, EAGER, Dense, LeanBlock, Make, Product, as_it_is, bias_of, named, normalised
from qkv.models import GPT2
from qkv.positions import Places
from qkv.text.tokenizer import PAD

ROWS = 32  # that the layout of packed weights is chosen for; it serves any number


class Packed(nn.Module):
    """The product with weights that oneDNN has laid out beforehand: of a large vocabulary it takes half the time."""

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)
        self.bias, self.activation = bias, COMPILED.get(activation, as_it_is)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], ""))


def packed(name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
    """As it is where torch was built without oneDNN."""
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return Packed(weight, bias, activation)
    return Dense(name, weight, bias, activation)


class Prompted(Beams):
    """The cache of a model without a memory: it begins with the keys and values of prompts, padded on the left."""

    def __init__(self, cache: Tensor, real: Tensor) -> None:
        """cache (L, 2, n, H, T, K) and real (n, T): True where a token is no padding."""
        super().__init__(cache[..., :0, :], None)
        self.used = cache.size(4)
        self.lengths = real.sum(dim=1)  # (n,), in the order of the search
        self.is_full = bool(real.all())
        self.cache = F.pad(cache, (0, 0, 0, ROOM))
        self.own = cache.new_full((self.n, 1, self.used + ROOM), -torch.inf)
        self.own[:, 0, : self.used].masked_fill_(real, 0)
        self.arrange()

    def begin(self) -> None:
        super().begin()
        if self.mask is None and not self.is_full:
            self.mask = self.for_heads(self.own[:, :, : self.end])

    def places(self) -> Tensor:
        """Where the last token of each hypothesis stands in its own text, (n * W,)."""
        return (self.lengths + self.steps).repeat_interleave(self.width)

    def reorder(self, rows: Tensor) -> None:
        """In groups as ever; but hypotheses of a text that has slid have caches of their own, in any order."""
        group = rows // self.width
        kept = group.unique_consecutive()
        is_grouped = not len(rows) % max(1, len(kept)) and bool((kept[1:] > kept[:-1]).all())
        if is_grouped and torch.equal(group, kept.repeat_interleave(len(rows) // max(1, len(kept)))):
            super().reorder(rows)
            return
        place = self.place[group]
        self.cache, self.own = self.cache[:, :, place], self.own[place, rows % self.width][:, None]
        self.lengths, self.n, self.width = self.lengths[group], len(rows), 1
        self.place, self.is_moved, self.is_full = torch.arange(self.n), False, False
        self.memory = self.memory[:, :, place]
        self.arrange()

    def leave(self, kept: Tensor) -> None:
        self.lengths = self.lengths[kept]
        super().leave(kept)


class GPT2Block(LeanBlock):
    def forward(self, x: Tensor, cache: Tensor, used: int, width: int, mask: Tensor | None, is_few: bool) -> Tensor:
        return self.fed_forward(self.look_back(x, cache, used, width, mask, is_few))

    def read(self, x: Tensor, mask: Tensor | None, cache: Tensor) -> Tensor:
        """All tokens of prompts (B, T, D) at once; keys and values go into the cache (2, B, H, T, K)."""
        qkv = self.qkv(self.norm(x) if self.is_pre else x).view(*x.shape[:2], 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, K)
        cache.copy_(torch.stack((k, v)))
        context = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, scale=1.0)
        x = x + self.output(context.transpose(1, 2).flatten(2))
        return self.fed_forward(x if self.is_pre else self.norm(x))


class LeanStack(nn.Module):
    """All blocks, after another, for one step."""

    def __init__(self, blocks: list[GPT2Block]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, cache: Tensor, used: int, width: int, mask: Tensor | None, is_few: bool) -> Tensor:
        for layer, block in enumerate(self.blocks):
            x = block(x, cache[layer], used, width, mask, is_few)
        return x


class LeanGPT2:
    """A standard GPT-2's `start` and `step`. After `eager` steps its blocks are compiled."""

    def __init__(self, model: GPT2, make: Make = packed, eager: float = EAGER) -> None:
        c = self.config = model.config
        self.blocks = [GPT2Block(*part, make, c.activation) for part in named("decoder", model.decoder)]
        self.stack: nn.Module = LeanStack(self.blocks)
        self.table, self.norm, self.eager = model.tokens.weight.detach(), normalised(model.decoder.norm), eager
        empty = torch.zeros(1, c.max_length, c.d_model)
        self.placed = model.decoder.position.embed(empty, Places.span(0, c.max_length, empty.device))[0].detach()
        self.vocabulary = make("vocabulary", model.projection.weight.detach(), bias_of(model.projection), "")

    def compile(self) -> None:
        """From now on without Python between the operations of all blocks, see `LeanTransformer`."""
        self.eager = 0
        with suppress(DeprecationWarning):
            self.stack = torch.jit.script(self.stack)

    def start(self, given: Tensor) -> tuple[Tensor, Prompted]:
        """Prompts (B, T), padded on the left: the last token of each, and what the others leave."""
        before, c = given[:, :-1], self.config
        real, T = before != PAD, before.size(1)
        cache = torch.empty(c.layers, 2, len(given), c.n_heads, T, c.head_width)
        if T:
            x = F.embedding(before, self.table) + F.embedding((real.cumsum(dim=1) - 1).clamp(min=0), self.placed)
            mask = None if real.all() else self.visible(real)
            for layer, block in enumerate(self.blocks):
                x = block.read(x, mask, cache[layer])
        return given[:, -1], Prompted(cache, real)

    def visible(self, real: Tensor) -> Tensor:
        """(B, 1, T, T): what stands before a token and is no padding; padding sees itself, and stays a number."""
        T = real.size(1)
        causal = torch.ones(T, T, dtype=torch.bool).tril()
        return (causal & real[:, None] | torch.eye(T, dtype=torch.bool))[:, None]

    def step(self, tokens: Tensor, seen: Prompted) -> Tensor:
        """The last token of each hypothesis (N,) -> logits of the next one (N, V)."""
        left = self.eager = self.eager - 1
        if left == 0:
            self.compile()
        seen.begin()
        x = seen.arranged(F.embedding(tokens, self.table) + F.embedding(seen.places(), self.placed))  # (N, D)
        x = self.stack(x, seen.now, seen.used, seen.width, seen.mask, seen.is_few)
        seen.finish()
        return self.vocabulary(seen.restored(self.norm(x)))
