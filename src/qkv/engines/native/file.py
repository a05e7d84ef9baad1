"""Writing a model's file for the native engine; native/file.cpp says how it is laid out, and reads it."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft
from qkv.engines.native.library import Native
from qkv.errors import InputError
from qkv.files import write_with
from qkv.layers import Block, Embedding, GatedFeedForward, Stack
from qkv.models import GPT2, Bert, Ernie2, Model, Transformer, TransformerEncoder
from qkv.positions import Learned, Places, Position

MAGIC, VERSION = b"QKVMODEL", 2
HEADER = Struct("<8sIIQQ10If32sI16x")  # native/file.cpp, struct Header
CHECKED_FROM = 32  # behind the checksum
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swish")
PRE, NORM_INPUTS, CAUSAL, WRITES, ONE_TABLE = 1, 2, 4, 8, 16
ALIGNED = 64  # bytes at a multiple of which each array begins
MOST = float(np.finfo(np.float16).max)
SOME = 2**20  # words that are summed at a time
PARTS = (
    (("qkv", "output"), "attention"), (("memory_query", "memory_output"), "memory"),
    (("expand", "contract"), "feed_forward"),
)  # fmt: skip
LANES, COLUMNS, QUAD = 16, 64, 4  # widths are rounded up to 16; weights stand in groups of 64 rows, and of 4 columns

LEVELS = 127  # of a weight in 8 bits, on each side of 0

Array = NDArray[Any]
Products = dict[str, tuple[Tensor, Tensor | None]]  # weight (out, in) and bias (out) of each, by its name


# -- what a model is made of -------------------------------------------------------------------------------------------


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


def products_of(model: Model) -> Products:
    """All products: q, k and v are one, with 1 / sqrt(K) in the weights of q, and so are k and v of a source for all
    layers of a decoder."""
    found, memory = Products(), list[nn.Linear]()
    for name, block in blocks_of(model).items():
        own, by = block.attention, model.config.head_width**-0.5
        found[f"{name}.qkv"] = joined(own.query, own.key, own.value, by=by)
        found[f"{name}.output"] = joined(own.output)
        found[f"{name}.expand"] = joined(block.feed_forward.expand)
        found[f"{name}.contract"] = joined(block.feed_forward.contract)
        if block.has_memory:
            other = block.memory_attention
            found[f"{name}.memory_query"] = joined(other.query, by=by)
            found[f"{name}.memory_output"] = joined(other.output)
            memory += [other.key, other.value]
    if memory:
        found["memory"] = joined(*memory)
    if isinstance(model, Transformer | GPT2):
        found["vocabulary"] = joined(model.vocabulary if isinstance(model, Transformer) else model.projection)
    return found


def joined(*linears: Any, by: float = 1.0) -> tuple[Tensor, Tensor | None]:
    """One product for several projections of the same x, the first of them times `by`."""

    def together(parts: list[Tensor]) -> Tensor:
        first, *others = parts
        first = first if by == 1 else first * by
        return torch.cat([first, *others]) if others else first

    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return together([linear.weight.detach() for linear in linears]), together(biases) if biases else None


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W (F, D) -> int8 values (F, D) and a scale for each row (F,), so that values * scale is near W."""
    scale = weight.abs().amax(dim=1).clamp(min=1e-8) / LEVELS
    return (weight / scale[:, None]).round().to(torch.int8), scale


# -- the file ----------------------------------------------------------------------------------------------------------


class Writer:
    """Arrays, one behind the other, each at a multiple of 64 bytes."""

    def __init__(self, model: Any, bits: int, smooth: Mapping[str, Tensor]) -> None:
        self.model, self.bits, self.smooth, self.whole = model, bits, smooth, bytearray(HEADER.size)
        self.heads, self.width = model.config.n_heads, model.config.head_width

    def put(self, array: Array, kind: type = np.float32) -> None:
        self.whole += np.ascontiguousarray(array, kind).tobytes()
        self.whole += bytes(-len(self.whole) % ALIGNED)

    def table(self, rows: Tensor) -> None:
        self.put(wide(numbers(rows), LANES))

    def norm(self, norm: nn.Module) -> None:
        for part in (norm.weight, norm.bias):
            self.table(part)  # type: ignore[arg-type]

    def by_heads(self, array: Array, parts: int) -> Array:
        """(.., parts * H * K) with K rounded up."""
        shape = array.shape[:-1]
        return wide(array.reshape(*shape, parts * self.heads, self.width), LANES).reshape(*shape, -1)

    def parts_of(self, name: str, rows: int) -> int:
        """How many times all heads stand in the rows of a product; 0 if they do not."""
        return rows // (self.heads * self.width) if name.endswith((".qkv", "memory", ".memory_query")) else 0

    def product(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
        """x W^T + b, W (out, in); rows and columns that belong to heads are rounded up head by head."""
        shift = numbers(weight.new_zeros(len(weight)) if bias is None else bias)
        values, scale = numbers(weight), np.ones(len(weight), np.float32)
        by = numbers(self.smooth.get(name, weight.new_ones(weight.size(1))))
        if self.bits == 8:
            rounded, scales = quantised(weight * torch.from_numpy(by))
            values, scale = numbers(rounded), numbers(scales)
        elif self.bits == 16 and abs(most := values.flat[np.abs(values).argmax()]) > MOST:
            raise InputError(f"a weight of {name} is {most:g}, and 16 bits hold at most {MOST:,.0f}; use 32 bits")
        inverse = 1 / by
        if parts := self.parts_of(name, len(weight)):
            values, shift, scale = (self.by_heads(one, parts) for one in (values.T, shift, scale))
            values = values.T
        if name.endswith("output"):
            values, inverse = self.by_heads(values, 1), self.by_heads(inverse, 1)
        values = wide(wide(values, LANES).T, LANES).T
        grouped = wide(values.T, COLUMNS).T.reshape(-1, COLUMNS, values.shape[1])  # (out / 64, 64, in)
        if self.bits != 8:
            self.put(grouped.transpose(0, 2, 1), np.float16 if self.bits == 16 else np.float32)
            self.put(wide(shift, LANES))
            return
        quads = grouped.reshape(*grouped.shape[:2], -1, QUAD)
        self.put(quads.transpose(0, 2, 1, 3), np.int8)
        for row in (scale, shift):
            self.put(wide(row, LANES))
        self.put(128 * values.sum(axis=1, dtype=np.int64), np.int32)
        self.put(wide(inverse, LANES))

    def stack(self, name: str, stack: Stack, products: Products) -> None:
        """Norms and blocks."""
        if has_norm(stack):
            self.norm(stack.norm_inputs)
        for i, block in enumerate(stack.blocks):
            for part, norm in PARTS:
                if f"{name}.{i}.{part[0]}" in products:
                    for end in part:
                        self.product(f"{name}.{i}.{end}", *products[f"{name}.{i}.{end}"])
                    self.norm(getattr(block, f"{norm}_residual").norm)
        if self.model.config.norm == "pre":
            self.norm(stack.norm)

    def file(self, made_of: str) -> bytearray:
        """The whole file, of weights with that SHA-256."""
        model, c, products = self.model, self.model.config, products_of(self.model)
        (name, reader), *others = stacks_of(model).items()
        writes, is_one = "vocabulary" in products, False
        tables = inputs(model, table_of(model), reader)
        for table in tables:
            self.table(table)
        self.stack(name, reader, products)
        for name, stack in others:
            is_one = model.target.weight is model.source.weight
            for table in inputs(model, model.target, stack)[is_one:2]:
                self.table(table)
            self.stack(name, stack, products)
            self.product("memory", *products["memory"])
        if writes:
            self.product("vocabulary", *products["vocabulary"])
        flags = PRE * (c.norm == "pre") | NORM_INPUTS * has_norm(reader) | CAUSAL * isinstance(model, GPT2)
        flags |= WRITES * writes | ONE_TABLE * is_one
        sizes = (c.d_model, c.n_heads, c.head_width, c.inner_width, len(reader.blocks), *map(len, tables))
        layers = sum(len(stack.blocks) for _, stack in others)
        given = (*sizes, ACTIVATIONS.index(c.activation), flags, c.eps, bytes.fromhex(made_of), layers)
        self.whole[: HEADER.size] = HEADER.pack(MAGIC, VERSION, self.bits, len(self.whole), 0, *given)
        self.whole[CHECKED_FROM - 8 : CHECKED_FROM] = checksum(self.whole).to_bytes(8, "little")
        return self.whole


def has_norm(stack: Stack) -> bool:
    """Whether there is one before all blocks."""
    return not isinstance(stack.norm_inputs, nn.Identity)


def numbers(x: Tensor) -> Array:
    return x.detach().numpy()


def wide(x: Array, to: int) -> Array:
    """The last dimension rounded up to a multiple, with zeros."""
    return x if x.shape[-1] % to == 0 else np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % to)])


def table_of(model: Any) -> Embedding:
    """The vectors of the tokens that are read."""
    return model.source if isinstance(model, TransformerEncoder | Transformer) else model.tokens


def inputs(model: Any, table: Embedding, stack: Stack) -> tuple[Tensor, Tensor, Tensor]:
    """The vectors of tokens (V, D), places and segments, whose sum goes into the stack."""
    count = model.config.max_length
    if isinstance(stack.position, Learned):
        count = min(count, stack.position.length)
    none = torch.zeros(1, count, model.config.d_model)
    places = stack.position.embed(none, Places.span(0, count, none.device))[0]
    if isinstance(model, Ernie2):
        places = places + model.tasks(torch.tensor(0))  # the task that is read for unless another is named
    segments = getattr(table, "segments", None)
    return table.weight * table.scale, places, places[:0] if segments is None else segments


def checksum(whole: bytes | bytearray) -> int:
    """The sum of all words of 8 bytes behind it, word i times 2 i + 1, in 64 bits."""
    words, total = np.frombuffer(whole, "<u8", offset=CHECKED_FROM), 0
    for first in range(0, len(words), SOME):
        some = words[first : first + SOME]
        total += int((some * (2 * np.arange(first, first + len(some), dtype=np.uint64) + 1)).sum(dtype=np.uint64))
    return total % 2**64


@torch.no_grad()
def write(
    path: Path, model: Model, *, bits: int = 8, smooth: Mapping[str, Tensor] | None = None, made_of: str = ""
) -> None:
    """A model's file, in 8 bits, 16 or 32; `smooth` are what inputs of products are divided by in 8 bits (see
    engines/quantize.py), `made_of` the SHA-256 of its weights."""
    whole = Writer(model, bits, smooth or {}).file(made_of or "00" * 32)
    write_with(path, lambda temporary: temporary.write_bytes(whole))


@torch.no_grad()
def in_memory(model: Model) -> Native:
    """The engine on the weights that a model has now, in float32: in a file that has no name and goes with it."""
    whole, name = Writer(model, 32, {}).file("00" * 32), "the model in float32"
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():  # Linux
        with os.fdopen(os.memfd_create("qkv"), "wb") as file:
            file.write(whole)
            file.flush()
            return Native(Path(f"/proc/self/fd/{file.fileno()}"), name)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.qkv"
        path.write_bytes(whole)
        return Native(path, name)
