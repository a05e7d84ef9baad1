"""A model as boxes, from bottom to top: what each part is, with the sizes of the model at hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import nn

from qkv.attention import MultiHead
from qkv.layers import Block, Stack
from qkv.models import Model, Transformer, count_parameters

Where = Literal["encoder", "decoder", "output"]


@dataclass(frozen=True)
class Box:
    """One part of a model's picture."""

    stack: Where  # the column in which it stands
    label: str
    about: str  # its sizes
    parameters: int  # of one of them
    times: int = 1  # how many stand on one another; the boxes of a stack with the same number above 1 repeat together


def boxes(model: Model) -> list[Box]:
    """Those of Vaswani et al. 2017, Figure 1 for a Transformer; the parts by their names for any other model."""
    if not isinstance(model, Transformer):
        return [*parts(model, "encoder", ("source", "encoder", "memory", "bridges")),
                *parts(model, "decoder", ("target", "decoder")), *parts(model, "output", ("vocabulary",))]  # fmt: skip
    c = model.config
    shared = {"all": "one table for source, target and output", "decoder": "one table for target and output"}
    table = f"{c.vocab_size:,} x {c.d_model}"
    tied = f"; {shared[c.tied]}" if c.tied in shared else ""
    return [
        Box("encoder", "Input embedding", table, count_parameters(model.source)),
        *stack_boxes("encoder", model.encoder, c.position, c.norm),
        Box("decoder", "Output embedding", f"{table}, shifted right", count_parameters(model.target)),
        *stack_boxes("decoder", model.decoder, c.position, c.norm),
        Box("output", "Linear", f"{c.d_model} -> {c.vocab_size:,}{tied}", count_parameters(model.vocabulary)),
        Box("output", "Softmax", "probabilities of the next token", 0),
    ]


def stack_boxes(where: Where, stack: Stack, position: str, norm: str) -> Iterator[Box]:
    block: Block = stack.blocks[0]  # type: ignore[assignment]
    n = len(stack.blocks)
    yield Box(where, "Positions", position, count_parameters(stack.positions))
    own = "Masked multi-head attention" if where == "decoder" else "Multi-head attention"
    around = f"{norm}-norm"
    yield Box(where, own, heads(block.attention), count_parameters(block.attention), n)
    yield Box(where, "Add & Norm", around, count_parameters(block.attention_residual), n)
    if block.has_memory:
        about = f"{heads(block.memory_attention)}; keys and values from the encoder"
        yield Box(where, "Multi-head attention", about, count_parameters(block.memory_attention), n)
        yield Box(where, "Add & Norm", around, count_parameters(block.memory_residual), n)
    inner = block.feed_forward.expand
    about = f"{inner.in_features} -> {inner.out_features} -> {inner.in_features}"
    yield Box(where, "Feed-forward", about, count_parameters(block.feed_forward), n)
    yield Box(where, "Add & Norm", around, count_parameters(block.feed_forward_residual), n)


def heads(attention: MultiHead) -> str:
    n = attention.n_heads
    return f"{n} head{'s' * (n > 1)} of {attention.query.out_features // n}"


def parts(model: nn.Module, where: Where, names: tuple[str, ...]) -> list[Box]:
    found = [(name, getattr(model, name, None)) for name in names]
    return [
        Box(where, name.capitalize(), type(part).__name__, count_parameters(part))
        for name, part in found
        if isinstance(part, nn.Module) and count_parameters(part)
    ]
