"""A model as boxes, from bottom to top: what each part is, with the sizes of the model at hand; and their picture."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from typing import Literal

import torch
from torch import nn

from qkv.attention import MultiHead
from qkv.layers import Block, Residual, Stack
from qkv.look.picture import PLAIN, Axes, Given, Picture, boxed, sheet, write
from qkv.models import GPT2, PRESETS, Bert, Headed, Model, Transformer, TransformerConfig, XLNet, count_parameters
from qkv.models.ernie_thu import Aggregator

Where = Literal["encoder", "decoder", "output"]
SHADES = {"attention": "#fde0c2", "Norm": "#f5f3b3", "Feed": "#c6e6f5", "embedding": "#fbe0e0", "Linear": "#dcdff5",
          "Softmax": "#d3ecd3"}  # fmt: skip


@dataclass(frozen=True)
class Box:
    """One part of a model's picture."""

    stack: Where  # the column in which it stands
    label: str
    about: str  # its sizes
    parameters: int  # of one of them
    times: int = 1  # how many stand on one another; the boxes of a stack with the same number above 1 repeat together
    around: int = 0  # of a box that adds: how many below it the residual goes around
    from_encoder: bool = False  # whether it reads what the encoder wrote


def of_the_paper(name: str) -> Transformer:
    """Vaswani et al. 2017, Table 3, "base" or "big": its sizes, without weights."""
    with torch.device("meta"):
        return Transformer(TransformerConfig(**PRESETS[name]))


def boxes(model: Model) -> list[Box]:
    """Those of Vaswani et al. 2017, Figure 1 for a Transformer or one stack of it; parts by their names for others."""
    headed = model if isinstance(model, Headed) else None
    inner = headed.backbone if headed else model
    if isinstance(inner, Bert | GPT2 | XLNet):
        return list(backbone_boxes(inner, headed))
    if not isinstance(model, Transformer):
        return [*parts(model, "encoder", ("source", "encoder", "memory", "bridges")),
                *parts(inner, "encoder", ("bilm", "mix", "tagger")),
                *parts(model, "decoder", ("target", "decoder")), *parts(model, "output", ("vocabulary",))]  # fmt: skip
    c = model.config
    shared = {"all": "; one table for source, target and output", "decoder": "; one table for target and output"}
    table = f"{c.vocab_size:,} x {c.d_model}"
    out = f"{c.d_model} -> {c.vocab_size:,}{shared.get(c.tied, '')}"
    return [
        Box("encoder", "Input embedding", table, count_parameters(model.source)),
        *stack_boxes("encoder", model.encoder, c.position),
        Box("decoder", "Output embedding", f"{table}, shifted right", count_parameters(model.target)),
        *stack_boxes("decoder", model.decoder, c.position),
        Box("output", "Linear", out, count_parameters(model.vocabulary)),
        Box("output", "Softmax", "probabilities of the next token", 0),
    ]


def backbone_boxes(model: Bert | GPT2 | XLNet, headed: Headed | None) -> Iterator[Box]:
    """One stack, and on it the heads that were put there, or what says which token stands in a place."""
    where: Where = "decoder" if isinstance(model, GPT2) else "encoder"
    c = model.config
    yield Box(where, "Input embedding", f"{c.vocab_size:,} x {c.d_model}", count_parameters(model.tokens))
    if isinstance(model, XLNet):
        yield Box(where, "Query vector", "in place of a token that is asked for", model.query.numel())
    yield from stack_boxes(where, getattr(model, where), c.position)
    if headed:
        for name, text in headed.head_texts.items():
            yield Box(where, name.capitalize(), text, count_parameters(headed.heads.get_submodule(name)))
        return
    about = f"{c.d_model} -> {c.vocab_size:,}{'; one table with the input' * getattr(c, 'tied', True)}"
    yield Box(where, "Linear", about, count_parameters(model.projection))
    yield Box(where, "Softmax", "probabilities of a token", 0)


def stack_boxes(where: Where, stack: Stack, position: str) -> Iterator[Box]:
    """Vaswani et al. 2017, Figure 1: positions, a block of each kind that it has, as often as it is there; behind the
    last block of pre-norm, one norm more."""
    yield Box(where, "Positions", position, count_parameters(stack.positions))
    yield from norm_boxes(where, stack.norm_inputs, "of the embeddings")
    for kind, several in groupby(stack.blocks, type):
        blocks = [*several]
        if kind is Aggregator:
            yield Box(where, "Entities", "vectors of what names stand for", 0)
        yield from block_boxes(where, blocks[0], len(blocks))  # type: ignore[arg-type]
    yield from norm_boxes(where, stack.norm, "of what the last block wrote")


def block_boxes(where: Where, block: Block, times: int) -> Iterator[Box]:
    """Of pre-norm blocks the norms come first."""
    own = "Masked multi-head attention" if where == "decoder" else "Multi-head attention"
    inner = block.feed_forward.expand
    network = f"{inner.in_features} -> {inner.out_features} -> {inner.in_features}"
    rows: list[tuple[str, str, nn.Module, Residual]] = []
    rows.append((own, heads(block.attention), block.attention, block.attention_residual))
    if block.has_memory:
        about = f"{heads(block.memory_attention)}; keys and values from the encoder"
        rows.append(("Multi-head attention", about, block.memory_attention, block.memory_residual))
    if isinstance(block, Aggregator):
        about = f"{heads(block.entity_attention)}; each entity looks at the others"
        rows.append(("Multi-head attention", about, block.entity_attention, block.entity_residual))
        network = f"{network}; tokens and entities"
    rows.append(("Feed-forward", network, block.feed_forward, block.feed_forward_residual))
    for label, about, part, residual in rows:
        is_pre, norms = residual.place == "pre", count_parameters(residual)
        if is_pre:
            yield Box(where, "Norm", "pre-norm: a copy, for the next box alone", norms, times)
        over = block.has_memory and part is block.memory_attention
        yield Box(where, label, about, count_parameters(part), times, from_encoder=over)
        if is_pre:
            yield Box(where, "Add", "what went around the two boxes below", 0, times, around=2)
        else:
            yield Box(where, "Add & Norm", "post-norm", norms, times, around=1)


def norm_boxes(where: Where, norm: nn.Module, about: str) -> Iterator[Box]:
    if not isinstance(norm, nn.Identity):
        yield Box(where, "Norm", about, count_parameters(norm))


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


def architecture(given: Given) -> Picture:
    """Vaswani et al. 2017, Figure 1, with the sizes of the model at hand; without one, of the paper's base model."""
    shown = boxes(given.opened.model if given.opened else of_the_paper("base"))
    columns = [[box for box in shown if box.stack == "encoder"], [box for box in shown if box.stack != "encoder"]]
    tallest = max(map(len, columns))
    figure, axes = sheet(10, 0.62 * tallest + 1)
    heights = [(i + 0.5) / (tallest + 0.5) for i in range(tallest)]
    for x, column in zip((0.25, 0.75), columns, strict=True):
        pillar(axes, x, list(zip(heights, column, strict=False)))
    arrow = {"arrowstyle": "->", "color": "#1f6feb", "connectionstyle": "arc3,rad=-0.1", "zorder": 0}
    for y, box in zip(heights, columns[1], strict=False):
        if box.from_encoder:
            axes.annotate("", (0.53, y), (0.32, heights[len(columns[0]) - 1]), arrowprops=arrow)
    return Picture([figure], {"boxes": [asdict(box) for box in shown]})


def pillar(axes: Axes, x: float, column: list[tuple[float, Box]]) -> None:
    """Boxes on one another, each with its height, and N x beside those that repeat."""
    for (low, _), (high, _) in pairwise(column):
        axes.annotate("", (x, high), (x, low), arrowprops={"arrowstyle": "->", "color": "#9aa0a6"}, zorder=0)
    for y, box in column:
        shade = next((colour for part, colour in SHADES.items() if part in box.label), PLAIN)
        boxed(axes, x, y, f"{box.label}   {box.about}", shade, fontsize=8)
    for i, (y, box) in enumerate(column):
        if box.around:  # what enters the lowest of them
            low = (column[i - box.around][0] + column[i - box.around - 1][0]) / 2
            axes.plot([x, x - 0.21, x - 0.21, x], [low, low, y, y], color="#9aa0a6", lw=1, zorder=0)
    for times, group in groupby(column, key=lambda one: one[1].times):
        heights = [y for y, _ in group]
        if times > 1:
            edge = x - 0.23
            axes.plot([edge, edge], [heights[0], heights[-1]], color="#9aa0a6", lw=1.5)
            write(axes, edge - 0.012, (heights[0] + heights[-1]) / 2, f"{times}×", ha="right", fontsize=11)
