"""How a file of the native engine is laid out; native/file.cpp says it, too, and reads it."""

from struct import Struct
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.convert.native.parts import joined, projections_of, stacks_of
from qkv.layers import Embedding, Stack
from qkv.models import GPT2, Ernie2, Transformer, TransformerEncoder, count_parameters
from qkv.positions import Learned, Places

MAGIC, VERSION = b"QKVMODEL", 2
HEADER = Struct("<8sIIQQ10If32sIQ8x")  # native/file.cpp, struct Header
CHECKED_FROM = 32  # behind the checksum
FLAGS = 14  # which number of the header they are
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swish")
PRE, NORM_INPUTS, CAUSAL, WRITES, ONE_TABLE, HALVES = 1, 2, 4, 8, 16, 32
ALIGNED = 64  # bytes at a multiple of which each array begins
SOME = 2**20  # words that are summed at a time
PARTS = (
    (("qkv", "output"), "attention"), (("memory_query", "memory_output"), "memory"),
    (("expand", "contract"), "feed_forward"),
)  # fmt: skip
LANES, COLUMNS, QUAD = 16, 64, 4  # widths are rounded up to 16; weights stand in groups of 64 rows, and of 4 columns

Array = NDArray[Any]


class FileLayout:
    """The arrays of a file, one behind the other, each at a multiple of 64 bytes; by itself nothing: a subclass writes
    them, or reads them."""

    def __init__(self, model: Any, bits: int) -> None:
        self.model, self.bits, self.projections = model, bits, projections_of(model)
        self.products = {name: joined(*linears, by=by) for name, (linears, by) in self.projections.items()}
        self.heads, self.width = model.config.n_heads, model.config.head_width
        self.has_halves = False  # whether the vectors of tokens are float16

    def inputs(self, table: Embedding, stack: Stack, *, is_known: bool = False, has_segments: bool = True) -> None:
        """The tables whose sum goes into a stack; without that of the tokens, if it `is_known`."""
        raise NotImplementedError

    def norm(self, norm: Any) -> None:
        raise NotImplementedError

    def product(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
        """x W^T + b, W (out, in); rows and columns that belong to heads are rounded up head by head."""
        raise NotImplementedError

    def parts_of(self, name: str, rows: int) -> int:
        """How many times all heads stand in the rows of a product; 0 if they do not."""
        return rows // (self.heads * self.width) if name.endswith((".qkv", "memory", ".memory_query")) else 0

    def walk(self) -> None:
        """All of them, in their order."""
        (name, reader), *others = stacks_of(self.model).items()
        self.inputs(table_of(self.model), reader)
        self.stack(name, reader)
        for name, stack in others:
            self.inputs(self.model.target, stack, is_known=self.has_one_table, has_segments=False)
            self.stack(name, stack)
            self.product("memory", *self.products["memory"])
        if "vocabulary" in self.products:
            self.product("vocabulary", *self.products["vocabulary"])

    def stack(self, name: str, stack: Stack) -> None:
        """Norms and blocks."""
        if has_norm(stack):
            self.norm(stack.norm_inputs)
        for i, block in enumerate(stack.blocks):
            for part, norm in PARTS:
                if f"{name}.{i}.{part[0]}" in self.products:
                    for end in part:
                        self.product(f"{name}.{i}.{end}", *self.products[f"{name}.{i}.{end}"])
                    self.norm(getattr(block, f"{norm}_residual").norm)
        if self.model.config.norm == "pre":
            self.norm(stack.norm)

    @property
    def has_one_table(self) -> bool:
        """Whether source and target have the same vectors of tokens."""
        target = getattr(self.model, "target", None)
        return target is not None and target.weight is self.model.source.weight

    def header(self, size: int, made_of: str) -> bytes:
        """For a file of so many bytes, of weights with that SHA-256; its checksum is 0 yet."""
        c, (reader, *others) = self.model.config, stacks_of(self.model).values()
        flags = PRE * (c.norm == "pre") | NORM_INPUTS * has_norm(reader) | CAUSAL * isinstance(self.model, GPT2)
        flags |= WRITES * ("vocabulary" in self.products) | ONE_TABLE * self.has_one_table | HALVES * self.has_halves
        tables = inputs(self.model, table_of(self.model), reader)
        sizes = (c.d_model, c.n_heads, c.head_width, c.inner_width, len(reader.blocks), *map(len, tables))
        layers = sum(len(stack.blocks) for stack in others)
        given = (*sizes, ACTIVATIONS.index(c.activation), flags, c.eps, bytes.fromhex(made_of), layers)
        return HEADER.pack(MAGIC, VERSION, self.bits, size, 0, *given, count_parameters(self.model))


def has_norm(stack: Stack) -> bool:
    """Whether there is one before all blocks."""
    return not isinstance(stack.norm_inputs, nn.Identity)


def numbers(x: Tensor) -> Array:
    return x.detach().numpy()


def wide(x: Array, to: int) -> Array:
    """The last dimension rounded up to a multiple, with zeros."""
    return x if x.shape[-1] % to == 0 else np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % to)])


def up(width: int) -> int:
    """Rounded up as `wide` does it."""
    return width - width % -LANES


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
