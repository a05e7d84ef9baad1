"""The Transformer as decoding runs it: the same numbers as `models.Transformer`, with less work for each token."""

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft, padding
from qkv.decoding.beams import Beams
from qkv.layers import ACTIVATIONS, Block, Stack
from qkv.models import Model, Transformer
from qkv.positions import Places, Position
from qkv.text.tokenizer import PAD

MOSTLY = 0.95  # the share of real tokens above which packing costs more than it saves


class Product(Protocol):
    """x W^T + b, and perhaps an activation, by whichever kernel: x (N, D) -> (N, F)."""

    def __call__(self, x: Tensor) -> Tensor: ...


Make = Callable[[str, Tensor, Tensor | None, str], Product]  # of a name, a weight, a bias, an activation ("" for none)


class Dense:
    """The product as it is, in the precision of the weights."""

    def __init__(self, name: str, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        self.weight, self.bias, self.activation = weight, bias, ACTIVATIONS.get(activation)

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        return y if self.activation is None else self.activation(y)


def is_standard(model: Model) -> bool:
    """Whether a model is what this file computes: scaled dot products, and positions that touch embeddings alone."""
    if not isinstance(model, Transformer):
        return False
    positions = [type(position) for stack in (model.encoder, model.decoder) for position in stack.positions]
    hooks = ("rotate", "score", "value")
    attentions = [module.attend for module in model.modules() if isinstance(module, MultiHead)]
    return all(getattr(kind, hook) is getattr(Position, hook) for kind in positions for hook in hooks) and all(
        type(attend) is Soft and attend.can_fuse for attend in attentions
    )


class LeanBlock:
    """What `layers.Block` computes; q, k and v come from one product, and 1 / sqrt(d_k) is inside the weights of q."""

    def __init__(self, block: Block, name: str, make: Make, activation: str) -> None:
        own, self.is_pre = block.attention, block.attention_residual.place == "pre"
        self.heads = own.n_heads
        self.qkv = joined(f"{name}.qkv", make, scaled(own.query, self.heads), own.key, own.value)
        self.output = joined(f"{name}.output", make, own.output)
        self.norm = normalised(block.attention_residual.norm)
        if block.has_memory:
            memory = block.memory_attention
            self.memory_query = joined(f"{name}.memory_query", make, scaled(memory.query, self.heads))
            self.memory_output = joined(f"{name}.memory_output", make, memory.output)
            self.memory_norm = normalised(block.memory_residual.norm)
        self.expand = joined(f"{name}.expand", make, block.feed_forward.expand, activation=activation)
        self.contract = joined(f"{name}.contract", make, block.feed_forward.contract)
        self.feed_forward_norm = normalised(block.feed_forward_residual.norm)

    def encode(self, x: Tensor, sentences: "Sentences") -> Tensor:
        """All real tokens of some sentences (N, D)."""
        h = self.norm(x) if self.is_pre else x
        qkv = sentences.padded(self.qkv(h))  # (B, S, 3 * H * K)
        q, k, v = qkv.view(*qkv.shape[:2], 3 * self.heads, -1).transpose(1, 2).chunk(3, dim=1)  # (B, H, S, K)
        context = F.scaled_dot_product_attention(q, k, v, sentences.mask, scale=1.0)
        x = self.added(x, self.output(sentences.packed(context.transpose(1, 2).flatten(2))), self.norm)
        return self.fed_forward(x)

    def step(self, x: Tensor, seen: Beams, layer: int) -> Tensor:
        """The last token of each hypothesis (n * W, D), in the order of the cache."""
        n, W, H = seen.n, seen.width, self.heads
        h = self.norm(x) if self.is_pre else x
        context = seen.look_back(layer, self.qkv(h).view(n, W, 3, H, -1))
        x = self.added(x, self.output(context), self.norm)
        h = self.memory_norm(x) if self.is_pre else x
        context = seen.look_at_source(layer, self.memory_query(h).view(n, W, H, -1))
        x = self.added(x, self.memory_output(context), self.memory_norm)
        return self.fed_forward(x)

    def fed_forward(self, x: Tensor) -> Tensor:
        h = self.feed_forward_norm(x) if self.is_pre else x
        return self.added(x, self.contract(self.expand(h)), self.feed_forward_norm)

    def added(self, x: Tensor, y: Tensor, norm: "Norm") -> Tensor:
        return x + y if self.is_pre else norm(x + y)


class Sentences:
    """Which places of padded sentences (B, S) are real: where there is much padding, products leave it out."""

    def __init__(self, src: Tensor) -> None:
        real = src != PAD
        share = float(real.float().mean())
        self.shape, self.mask = src.shape, None if share == 1 else padding(src, PAD)
        self.real = real.flatten().nonzero()[:, 0] if share < MOSTLY else None  # (N,)

    def packed(self, x: Tensor) -> Tensor:
        """(B, S, D) -> (N, D)"""
        rows = x.flatten(0, 1)
        return rows if self.real is None else rows[self.real]

    def padded(self, x: Tensor) -> Tensor:
        """(N, D) -> (B, S, D), with zeros at padding."""
        if self.real is not None:
            x = x.new_zeros(self.shape.numel(), x.size(1)).index_copy_(0, self.real, x)
        return x.view(*self.shape, -1)


class LeanTransformer:
    """A standard Transformer's `start` and `step`; `make` says by which kernel its products are computed."""

    def __init__(self, model: Transformer, make: Make = Dense) -> None:
        self.config, self.heads = model.config, model.config.n_heads
        self.source, self.target = Table(model.source.weight, model.encoder), Table(model.target.weight, model.decoder)
        activation = model.config.activation
        self.encoder, self.decoder = (
            [LeanBlock(cast(Block, block), f"{name}.{i}", make, activation) for i, block in enumerate(stack.blocks)]
            for name, stack in (("encoder", model.encoder), ("decoder", model.decoder))
        )
        attentions = [cast(Block, block).memory_attention for block in model.decoder.blocks]
        memories = [linear for attention in attentions for linear in (attention.key, attention.value)]
        self.memory = joined("memory", make, *memories)  # keys and values of all layers
        self.vocabulary = make("vocabulary", model.vocabulary.weight.detach(), bias_of(model.vocabulary), "")

    def start(self, src: Tensor) -> Beams:
        sentences = Sentences(src)
        x = sentences.packed(self.source(src, 0))  # (N, D)
        for block in self.encoder:
            x = block.encode(x, sentences)
        memory = sentences.padded(self.memory(self.source.norm(x)))  # (B, S, L * 2 * H * K)
        memory = memory.view(*src.shape, len(self.decoder), 2, self.heads, -1).permute(2, 3, 0, 4, 1, 5)
        blocked = sentences.mask
        if blocked is not None:
            blocked = torch.zeros(len(src), 1, src.size(1)).masked_fill_(~blocked[:, 0], -torch.inf)
        return Beams(memory.contiguous(), blocked)

    def step(self, tokens: Tensor, seen: Beams) -> Tensor:
        """The last token of each hypothesis (N,) -> logits of the next one (N, V)."""
        seen.begin()
        x = self.target(seen.arranged(tokens), seen.steps)  # (N, D)
        for layer, block in enumerate(self.decoder):
            x = block.step(x, seen, layer)
        seen.finish()
        return self.vocabulary(seen.restored(self.target.norm(x)))


class Table:
    """Embeddings with their positions, and the last norm of the stack they go into."""

    def __init__(self, weight: Tensor, stack: Stack) -> None:
        self.weight, self.scale, self.position = weight.detach(), weight.size(1) ** 0.5, stack.position
        self.norm = normalised(stack.norm)
        self.placed = torch.empty(0, weight.size(1))

    def __call__(self, ids: Tensor, start: int) -> Tensor:
        """Ids (B, S) from a place on; or (N,), all of them at one place."""
        stop = start + (ids.size(1) if ids.dim() == 2 else 1)
        placed = self.placed  # several threads may come here at once: each goes on with what it has found itself
        if (known := len(placed)) < stop:
            zeros = torch.zeros(1, stop - known, self.weight.size(1))
            more = self.position.embed(zeros, Places.span(known, stop, zeros.device))[0]
            self.placed = placed = torch.cat((placed, more))  # (T, D)
        return torch.add(placed[start:stop], F.embedding(ids, self.weight), alpha=self.scale)


Norm = Callable[[Tensor], Tensor]


def normalised(norm: nn.Module) -> Norm:
    if not isinstance(norm, nn.LayerNorm):
        return lambda x: x
    shape, weight, bias, epsilon = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def bias_of(module: Any) -> Tensor | None:
    return None if module.bias is None else module.bias.detach()


def scaled(query: nn.Linear, heads: int) -> nn.Linear:
    """The same projection with 1 / sqrt(d_k) inside."""
    factor = (query.out_features // heads) ** -0.5
    made = nn.Linear(query.in_features, query.out_features, bias=query.bias is not None)
    made.weight.data = query.weight.detach() * factor
    if query.bias is not None:
        made.bias.data = query.bias.detach() * factor
    return made


def joined(name: str, make: Make, *linears: nn.Linear, activation: str = "") -> Product:
    """One product for several projections of the same x."""
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    weight = torch.cat([linear.weight.detach() for linear in linears])
    return make(name, weight, torch.cat(biases) if biases else None, activation)
