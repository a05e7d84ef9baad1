"""Vaswani et al. 2017, Figure 1: sub-layers, blocks of them, and a stack of blocks with the positions that it owns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from qkv.attention import KeyValues, MultiHead, Remembered, Soft, build_attention
from qkv.config import build
from qkv.errors import InputError
from qkv.kernels import FastLinear, gelu_tanh
from qkv.layers.dropout import Dropout
from qkv.layers.stack_config import ACTIVATIONS, Norm, StackConfig
from qkv.positions import POSITIONS, Places, Position

Use = Literal["encoder", "decoder"]


def normalisation(d_model: int, eps: float, *, rms: bool) -> nn.Module:
    """A layer norm (Ba et al. 2016), or an RMS norm (Zhang & Sennrich 2019, Eq. 4): w x / rms(x), no mean, no bias."""
    return nn.RMSNorm(d_model, eps) if rms else nn.LayerNorm(d_model, eps)


class Residual(nn.Module):
    """Vaswani et al. 2017, section 5.4, `post`: LayerNorm(x + Dropout(f(x))).

    `pre`, as in GPT-2: x + Dropout(f(LayerNorm(x))).
    """

    def __init__(self, d_model: int, dropout: float, norm: Norm, eps: float = 1e-5, *, rms: bool = False) -> None:
        super().__init__()
        self.norm = normalisation(d_model, eps, rms=rms)
        self.dropout = Dropout(dropout)
        self.place = norm

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        added = x + self.dropout(f(self.read(x)))
        return added if self.place == "pre" else self.norm(added)

    def read(self, x: Tensor) -> Tensor:
        """What the sub-layer sees of x."""
        return self.norm(x) if self.place == "pre" else x


class FeedForward(nn.Module):
    """Vaswani et al. 2017, Eq. 2: FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every place.

    `activation` names what stands in the place of max(0, .).
    """

    def __init__(self, c: StackConfig) -> None:
        super().__init__()
        kind = FastLinear if c.fused else nn.Linear
        self.expand = kind(c.d_model, c.inner_width, bias=not c.gated)
        self.contract = kind(c.inner_width, c.d_model, bias=not c.gated)
        self.activation = ACTIVATIONS[c.activation]
        self.fused = c.fused and c.activation == "gelu_tanh"
        self.dropout = Dropout(c.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.inner(self.expand(x)))

    def inner(self, expanded: Tensor) -> Tensor:
        """What is contracted (.., F), of what was expanded."""
        activation = gelu_tanh if self.fused and self.training else self.activation
        return self.dropout(activation(expanded))


class GatedFeedForward(FeedForward):
    """Shazeer 2020, Eq. 6 (SwiGLU): FFN(x) = (Swish(x W) * x V) W2, without biases. W is `gate`, V is `expand`."""

    def __init__(self, c: StackConfig) -> None:
        super().__init__(c)
        self.gate = type(self.expand)(c.d_model, c.inner_width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.dropout(self.activation(self.gate(x)) * self.expand(x)))


@dataclass
class Seen(Remembered):
    """What one block has computed in earlier decoding steps: its own keys and values, and those of the memory."""

    own: KeyValues = field(default_factory=KeyValues)
    source: KeyValues = field(default_factory=KeyValues)


class Block(nn.Module):
    """Self-attention, attention over a memory if it has one, feed-forward; a residual around each."""

    def __init__(self, c: StackConfig, *, use: Use = "encoder", has_memory: bool = False, layer: int = 0) -> None:
        super().__init__()
        self.attention = MultiHead(c, attention=c.attention_of(use, layer), use=use)
        residual = partial(Residual, c.d_model, c.dropout, c.norm, c.eps, rms=c.rms)
        self.attention_residual = residual()
        self.has_memory = has_memory
        if has_memory:
            self.memory_attention = MultiHead(c, attention=c.attention_of("memory", layer), use="memory")
            self.memory_residual = residual()
        self.feed_forward = (GatedFeedForward if c.gated else FeedForward)(c)
        self.feed_forward_residual = residual()

    def forward(
        self, x: Tensor, at: Places, position: Position, mask: Tensor | None,
        memory: Tensor | None = None, memory_mask: Tensor | None = None, seen: Seen | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """x (B, T, D) looks at itself, or at `keys` (B, S, D)."""
        own, source = (seen.own, seen.source) if seen else (None, None)
        keys = None if keys is None else self.attention_residual.read(keys)
        look = partial(self.attention, mask=mask, position=position, seen=own, keys=keys)
        x = self.attention_residual(x, lambda x: look(x, at))
        if self.has_memory:
            over = partial(self.memory_attention, memory=memory, mask=memory_mask, seen=source)
            x = self.memory_residual(x, lambda x: over(x, at))
        return self.feed_forward_residual(x, self.feed_forward)


def settle(parts: Sequence[Soft]) -> None:
    """Tell the attentions of a stack, one for each layer, of each other."""
    for layer, part in enumerate(parts):
        part.settle(layer, next(one for one in parts if type(one) is type(part)))


def attentions(c: StackConfig, use: str, layers: int) -> nn.ModuleList:
    """What stands inside the heads of a stack, without its projections."""
    parts = [build_attention(c.attention_of(use, layer), c, use) for layer in range(layers)]
    settle(parts)
    return nn.ModuleList(parts)


class Stack(nn.Module):
    """N blocks over embedded tokens. With pre-norm a last normalisation follows, since the last sum has had none.

    With `norm_inputs` a first one stands before them (BERT), behind the positions.
    """

    def __init__(
        self, c: StackConfig, *, layers: int, use: Use = "encoder", has_memory: bool = False, norm_inputs: bool = False
    ) -> None:
        super().__init__()
        first = build(POSITIONS, c.position, c)
        more = [build(POSITIONS, c.position, c) for _ in range(layers - 1 if first.per_layer else 0)]
        self.positions = nn.ModuleList([first, *more])  # one for all layers, or one for each
        self.norm_inputs = normalisation(c.d_model, c.eps, rms=c.rms) if norm_inputs else nn.Identity()
        self.dropout = Dropout(c.dropout)
        blocks = [self.block(c, i, use=use, has_memory=has_memory) for i in range(layers)]
        settle([block.attention.attend for block in blocks])
        settle([block.memory_attention.attend for block in blocks if has_memory])
        self.blocks = nn.ModuleList(blocks)
        is_added = type(first).score is not Position.score or first.has_value
        if is_added and any(block.attention.attend.shortens for block in blocks):
            raise InputError(
                f"position={c.position!r} adds to pairs of tokens, and attention={c.attention!r} has none: it "
                "looks at slots that are made of many; take another position, for example rotary, sinusoidal or learned"
            )
        self.extra = extra_tokens([block.attention.attend.extra for block in blocks], c.d_model)
        self.position_name = c.position
        self.recompute = False  # in training, keep only what passes between blocks: see forward
        self.norm = normalisation(c.d_model, c.eps, rms=c.rms) if c.norm == "pre" else nn.Identity()

    @property
    def position(self) -> Position:
        """The one that touches the embeddings."""
        return self.positions[0]  # type: ignore[return-value]

    def layers(self) -> list[nn.Module]:
        """The blocks, each with its tables of positions where these are its own."""
        if not self.position.per_layer:
            return [*self.blocks]
        return [nn.ModuleList(own) for own in zip(self.blocks, self.positions, strict=True)]

    def refuse_trees(self, given: str) -> None:
        """For a model whose examples, `given`, have no dependency trees."""
        if self.position.needs_tree:
            raise InputError(
                f"{self.position_name!r} needs a dependency tree for each sentence, which {given} do not have; "
                "use qkv train --task heads, or another position"
            )

    def refuse_whole(self, given: str) -> None:
        """For a model whose masks hide single pairs of tokens: `given` says why."""
        if not all(block.attention.attend.hides_pairs for block in self.blocks):  # type: ignore[union-attr]
            raise InputError(f"linformer's slots hold all tokens of a text, but {given}; take another attention")

    def forward(
        self, x: Tensor, at: Places, mask: Tensor | None,
        memory: Tensor | None = None, memory_mask: Tensor | None = None, seen: list[Seen] | None = None,
        keys: Callable[[int, Tensor], Tensor] | None = None, unasked: int = 0,
    ) -> Tensor:  # fmt: skip
        """With `keys`, block i looks at keys(i, x) and not at its own x, of which the last block leaves out the first
        `unasked` rows.

        With `recompute`, the backward pass computes each block once more: less memory for a third more time.
        Chen et al. 2016, section 4: memory for activations falls from N blocks to one and N inputs.
        """
        x = self.begun(x, at)
        if self.extra is not None:
            if seen is not None or keys is not None or at.tree is not None:
                raise InputError(
                    "tokens in front of a text (bigbird(kind='etc')) have no place in this model; use 'itc'"
                )
            x, at, mask = in_front(self.extra, x, at, mask)
        for i, (run, position) in enumerate(self.each()):
            given = keys(i, x) if keys else None
            if unasked and i == len(self.blocks) - 1:
                x, at, mask = x[:, unasked:], at.behind(unasked), None if mask is None else mask[:, :, unasked:]
            x = run(x, at, position, mask, memory, memory_mask, seen[i] if seen else None, given)
        return self.norm(x if self.extra is None else x[:, len(self.extra) :])

    def block(self, c: Any, layer: int, **how: Any) -> Block:
        """The block of a layer: a stack of other blocks makes its own."""
        return Block(c, layer=layer, **how)

    def begun(self, x: Tensor, at: Places) -> Tensor:
        """What the first block reads (B, T, D)."""
        return self.dropout(self.norm_inputs(self.position.embed(x, at)))

    def each(self) -> Iterator[tuple[Callable[..., Any], Position]]:
        """The blocks, to be called, each with its position."""
        again = self.recompute and self.training and torch.is_grad_enabled()
        for i, block in enumerate(self.blocks):
            position: Any = self.positions[i % len(self.positions)]
            yield partial(checkpoint, block, use_reentrant=False) if again else block, position


# -- tokens in front of a text -----------------------------------------------------------------------------------------


def extra_tokens(counts: Sequence[int], width: int) -> nn.Parameter | None:
    """The tokens that attentions want in front of a text, (G, D); None if none does."""
    wanted = sorted(set(counts) - {0})
    if len(wanted) > 1:
        raise InputError(f"the layers of one stack want {wanted} tokens of their own; give them the same global_blocks")
    return nn.Parameter(torch.randn(wanted[0], width) * 0.02) if wanted else None


def in_front(extra: Tensor, x: Tensor, at: Places, mask: Tensor | None) -> tuple[Tensor, Places, Tensor | None]:
    """Zaheer et al. 2020, section 2, extended construction: learned tokens (G, D), which see all that any token sees
    and are seen by all; the places of the text (B, T, D) are counted behind them."""
    G = len(extra)
    x = torch.cat((extra.expand(len(x), -1, -1), x), dim=1)

    def behind(places: Tensor) -> Tensor:
        first = torch.arange(G, device=places.device).expand(*places.shape[:-1], G)
        return torch.cat((first, places + G), dim=-1)

    same = None if at.same is None else F.pad(at.same, (G, 0, G, 0), value=True)
    sentence = None if at.sentence is None else F.pad(at.sentence, (G, 0), value=-1)
    run = at.run + G if at.run else 0
    at = replace(at, query=behind(at.query), key=behind(at.key), same=same, sentence=sentence, run=run)
    if mask is None:
        return x, at, None
    mask = F.pad(mask, (G, 0), value=True)
    if mask.size(-2) > 1:
        mask = torch.cat((mask.any(dim=-2, keepdim=True).expand(*mask.shape[:-2], G, -1), mask), dim=-2)
    return x, at, mask
