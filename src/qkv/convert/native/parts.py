"""Which models the native engine has a form of, and the products that they are made of."""

from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft
from qkv.errors import InputError
from qkv.layers import Block, GatedFeedForward, Stack
from qkv.models import GPT2, Bert, Model, Transformer, TransformerEncoder
from qkv.positions import Position

Products = dict[str, tuple[Tensor, Tensor | None]]  # weight (out, in) and bias (out) of each, by its name
Joined = tuple[list[Any], float]  # projections of the same x that are one product, the first of them times a number


def has_native_form(model: nn.Module) -> bool:
    """Whether a model can be read, or searched with, by the native engine."""
    return isinstance(model, Bert | GPT2 | TransformerEncoder | Transformer) and has_standard_parts(model)


def can_write(model: nn.Module) -> TypeGuard[Transformer | GPT2]:
    """Whether it can be searched with."""
    return isinstance(model, Transformer | GPT2) and has_standard_parts(model)


def has_standard_parts(model: nn.Module) -> bool:
    """Scaled dot products, layer norms, plain feed-forward networks, plain blocks of them, and positions that touch
    embeddings alone."""
    if any(isinstance(module, nn.RMSNorm | GatedFeedForward) for module in model.modules()):
        return False
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if any(type(block) is not Block for stack in stacks for block in stack.blocks):
        return False
    positions = [type(position) for stack in stacks for position in stack.positions]
    hooks = ("rotate", "score", "value")
    attentions = [module.attend for module in model.modules() if isinstance(module, MultiHead)]
    return all(getattr(kind, hook) is getattr(Position, hook) for kind in positions for hook in hooks) and all(
        type(attend) is Soft and attend.can_fuse for attend in attentions
    )


def stacks_of(model: Model) -> dict[str, Stack]:
    """The stacks of a model that has a native form, by their names: one, or an encoder and a decoder."""
    if not has_native_form(model):
        raise InputError(
            "only a Transformer, or a backbone of BERT's or GPT-2's form, with scaled dot products, layer norms and "
            f"sinusoidal, learned or no positions, has an 8-bit form, and this is a {type(model).__name__} "
            f"({model.sizes()}); use another engine"
        )
    return {name: part for name, part in model.named_children() if isinstance(part, Stack)}


def blocks_of(model: Model) -> dict[str, Block]:
    return {
        f"{name}.{i}": cast(Block, block)
        for name, stack in stacks_of(model).items()
        for i, block in enumerate(stack.blocks)
    }


def projections_of(model: Model) -> dict[str, Joined]:
    """All products, by name: q, k and v are one, with 1 / sqrt(K) in the weights of q, and so are k and v of a source
    for all layers of a decoder."""
    found, memory = dict[str, Joined](), list[Any]()
    for name, block in blocks_of(model).items():
        own, by = block.attention, model.config.head_width**-0.5
        found[f"{name}.qkv"] = [own.query, own.key, own.value], by
        found[f"{name}.output"] = [own.output], 1.0
        found[f"{name}.expand"] = [block.feed_forward.expand], 1.0
        found[f"{name}.contract"] = [block.feed_forward.contract], 1.0
        if block.has_memory:
            other = block.memory_attention
            found[f"{name}.memory_query"] = [other.query], by
            found[f"{name}.memory_output"] = [other.output], 1.0
            memory += [other.key, other.value]
    if memory:
        found["memory"] = memory, 1.0
    if isinstance(model, Transformer | GPT2):
        found["vocabulary"] = [model.vocabulary if isinstance(model, Transformer) else model.projection], 1.0
    return found


def products_of(model: Model) -> Products:
    return {name: joined(*linears, by=by) for name, (linears, by) in projections_of(model).items()}


def joined(*linears: Any, by: float = 1.0) -> tuple[Tensor, Tensor | None]:
    """One product for several projections of the same x, the first of them times `by`."""

    def together(parts: list[Tensor]) -> Tensor:
        first, *others = parts
        first = first if by == 1 else first * by
        return torch.cat([first, *others]) if others else first

    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return together([linear.weight.detach() for linear in linears]), together(biases) if biases else None
