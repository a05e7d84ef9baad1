"""A Transformer and GPT-2 as decoding runs them, with less work for each token, and the searches on them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeGuard, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import padding
from qkv.decoding.draws import RowNumber
from qkv.decoding.engine import Search, Spread, Work
from qkv.decoding.hypothesis import Hypothesis
from qkv.engines.beams import Beams, Prompted
from qkv.engines.blocks import MOSTLY, LeanDecoder, LeanEncoder, LeanStack, has_standard_parts, packed, padded
from qkv.engines.products import FASTEST, Dense, Make, Product, joined, normalised
from qkv.engines.workers import SideBySide
from qkv.layers import Block, Stack
from qkv.models import GPT2, GPT2Config, Model, Transformer, Writes
from qkv.positions import Places
from qkv.text.tokenizer import BOS, PAD

EAGER = 64  # steps that are over before compiling (0.1 to 0.2 s) is
LITTLE = 2 * 10**7  # multiply-adds of a step up to which one thread is at least as fast as two,
LITTLE_PACKED = 2 * 10**6  # ... and by weights that are laid out beforehand, as a GPT-2's


def is_standard(model: Model) -> TypeGuard[Transformer | GPT2]:
    """Whether a model that writes has a lean form."""
    return isinstance(model, Transformer | GPT2) and has_standard_parts(model)


class Sentences:
    """Which places of padded sentences (B, S) are real: where there is much padding, products leave it out."""

    def __init__(self, src: Tensor) -> None:
        real = src != PAD
        share = float(real.float().mean())
        self.shape, self.mask = list(src.shape), None if share == 1 else padding(src, PAD)
        self.real = real.flatten().nonzero()[:, 0] if share < MOSTLY else None  # (N,)


class LeanWriter:
    """A standard model's `start` and `step`. After `eager` steps its blocks are compiled."""

    eager: float
    decoder: nn.Module
    norm: Product  # after the decoder
    vocabulary: Product

    def compile(self) -> None:
        """From now on without Python between the operations of all blocks: TorchScript, which runs the same kernels."""
        self.eager = 0
        with suppress(DeprecationWarning):  # where such warnings are errors, all stays as it is
            for name, part in list(vars(self).items()):
                if isinstance(part, LeanStack):
                    setattr(self, name, torch.jit.script(part))

    def step(self, tokens: Tensor, seen: Beams) -> Tensor:
        """The last token of each hypothesis (N,) -> logits of the next one (N, V)."""
        return self.vocabulary(self.hidden(tokens, seen))

    def hidden(self, tokens: Tensor, seen: Beams) -> Tensor:
        """... -> what the vocabulary is multiplied with (N, D)."""
        left = self.eager = self.eager - 1
        if left == 0:
            self.compile()
        x = self.embed(tokens, seen)
        return seen.restored(self.norm(self.decoder(x, *seen.begin())))

    def embed(self, tokens: Tensor, seen: Any) -> Tensor:
        """(N,) -> (N, D), in the order of the cache."""
        raise NotImplementedError


class LeanTransformer(LeanWriter):
    """`make` says by which kernel its products are computed."""

    def __init__(self, model: Transformer, make: Make = Dense, eager: float = EAGER) -> None:
        c = self.config = model.config
        self.heads, self.layers, self.eager = c.n_heads, c.decoder_layers, eager
        self.source = LeanEmbedding(model.source.weight, model.encoder)
        self.target = LeanEmbedding(model.target.weight, model.decoder)
        self.norm = self.target.norm
        self.encoder: nn.Module = LeanEncoder("encoder", model.encoder, make, c.activation)
        self.decoder = LeanDecoder("decoder", model.decoder, make, c.activation)
        self.memory = memory_product(model, make)
        self.vocabulary = joined("vocabulary", make, model.vocabulary)

    def start(self, given: Tensor) -> tuple[Tensor, Beams]:
        sentences = Sentences(given)
        shape, real, mask = sentences.shape, sentences.real, sentences.mask
        x = self.encoder(packed(self.source(given, 0), real), shape, real, mask)  # (N, D)
        memory = padded(self.memory(self.source.norm(x)), shape, real)  # (B, S, L * 2 * H * K)
        memory = memory.view(*shape, self.layers, 2, self.heads, -1).permute(2, 3, 0, 4, 1, 5)
        blocked = None
        if mask is not None:
            blocked = torch.zeros(len(given), 1, given.size(1)).masked_fill_(~mask[:, 0], -torch.inf)
        return given.new_full((len(given),), BOS), Beams(memory.contiguous(), blocked)

    def embed(self, tokens: Tensor, seen: Beams) -> Tensor:
        return self.target(seen.arranged(tokens), seen.steps)


def memory_product(model: Transformer, make: Make) -> Product:
    """Keys and values of the source, for all layers of the decoder."""
    attentions = [cast(Block, block).memory_attention for block in model.decoder.blocks]
    return joined("memory", make, *(linear for one in attentions for linear in (one.key, one.value)))


class LeanEmbedding:
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


class LeanGPT2(LeanWriter):
    """A standard GPT-2's `start` and `step`."""

    def __init__(self, model: GPT2, make: Make = FASTEST, eager: float = EAGER) -> None:
        c = model.config
        self.config, self.decoder, self.eager = c, LeanDecoder("decoder", model.decoder, make, c.activation), eager
        self.blocks = list(self.decoder.blocks)
        self.table, self.norm = model.tokens.weight.detach(), normalised(model.decoder.norm)
        empty = torch.zeros(1, c.max_length, c.d_model)
        self.placed = model.decoder.position.embed(empty, Places.span(0, c.max_length, empty.device))[0].detach()
        self.vocabulary = joined("vocabulary", make, model.projection)

    def start(self, given: Tensor) -> tuple[Tensor, Prompted]:
        """Prompts (B, T), padded on the left: the last token of each, and what the others leave."""
        before, c = given[:, :-1], self.config
        real, shape = before != PAD, list(before.shape)
        cache = torch.empty(c.layers, 2, len(given), c.n_heads, shape[1], c.head_width)
        if shape[1]:
            x = F.embedding(before, self.table) + F.embedding((real.cumsum(dim=1) - 1).clamp(min=0), self.placed)
            x, mask = x.flatten(0, 1), None if real.all() else self.visible(real)
            for layer, block in enumerate(self.blocks):
                x = block.read(x, shape, None, mask, mask is None, cache[layer])  # type: ignore[operator]
        return given[:, -1], Prompted(cache, real)

    def visible(self, real: Tensor) -> Tensor:
        """(B, 1, T, T): what stands before a token and is no padding; padding sees itself, and stays a number."""
        T = real.size(1)
        causal = torch.ones(T, T, dtype=torch.bool).tril()
        return (causal & real[:, None] | torch.eye(T, dtype=torch.bool))[:, None]

    def embed(self, tokens: Tensor, seen: Prompted) -> Tensor:
        return seen.arranged(F.embedding(tokens, self.table) + F.embedding(seen.places(), self.placed))


def lean_writer(model: Transformer | GPT2, make: Make | None = None, eager: float = EAGER) -> Writes:
    """`make` says by which kernel its products are computed, unless it is the one that serves such a model best."""
    if isinstance(model, GPT2):
        return LeanGPT2(model, make or FASTEST, eager)
    return LeanTransformer(model, make or Dense, eager)


class Lean(SideBySide):
    """The searches on the lean form of a standard Transformer or GPT-2: the same texts, sooner."""

    name = "lean"

    def __init__(self, model: Transformer | GPT2, decoder: Writes | None = None) -> None:
        super().__init__(model, decoder or lean_writer(model))
        c = model.config
        layers, attentions = (c.layers, 4) if isinstance(c, GPT2Config) else (c.decoder_layers, 6)
        block = attentions * c.d_model**2 + 2 * c.d_model * c.inner_width
        self.weights = layers * block + c.vocab_size * c.d_model  # that a step multiplies with
        self.sets_threads = False  # True, for a process of one's own: little work is done by one thread of torch

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        little = LITTLE_PACKED if isinstance(self.model, GPT2) else LITTLE
        if not self.sets_threads or len(sources) * how.beam * self.weights > little:
            return super().decode(sources, limits, how, rows)
        before = torch.get_num_threads()
        torch.set_num_threads(1)  # threads that begin meanwhile keep it
        try:
            return super().decode(sources, limits, how, rows)
        finally:
            torch.set_num_threads(before)

    def compile(self) -> None:
        """Now, and not after some steps: there is much to do."""
        if isinstance(self.decoder, LeanWriter):
            self.decoder.compile()

    def spread(self, work: Work, count: int) -> Spread | None:
        self.compile()  # once for all
        return super().spread(work, count)
