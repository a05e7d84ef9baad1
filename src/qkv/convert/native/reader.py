"""A file of the native engine as the model that it was made of."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qkv.convert.native.layout import (
    ALIGNED,
    COLUMNS,
    FLAGS,
    HALVES,
    HEADER,
    QUAD,
    Array,
    FileLayout,
    checksum,
    inputs,
    up,
)  # fmt: skip
from qkv.convert.native.parts import can_write
from qkv.errors import InputError
from qkv.files import read_bytes
from qkv.layers import Embedding, Stack
from qkv.models import Model
from qkv.positions import Learned

LARGEST = 2**34  # bytes of a file


class FileReader(FileLayout):
    """Gives a model the weights of a file; what was rounded stays so."""

    def __init__(self, model: Any, whole: bytes) -> None:
        super().__init__(model, HEADER.unpack_from(whole)[2])
        self.whole, self.place = whole, HEADER.size
        self.has_halves = bool(HEADER.unpack_from(whole)[FLAGS] & HALVES)
        self.tables = [part.weight for part in model.modules() if isinstance(part, Embedding)]

    def fill(self) -> None:
        """A ValueError if the file is of another model, or not as it was written."""
        _, _, _, size, checked, *_ = told = HEADER.unpack_from(self.whole)
        expected = HEADER.unpack(self.header(size, told[16].hex()))
        if told[:4] != expected[:4] or told[5:] != expected[5:] or checked != checksum(self.whole):
            raise ValueError
        self.walk()
        if self.place != len(self.whole):
            raise ValueError

    def take(self, *shape: int, kind: type = np.float32) -> Array:
        begin, size = self.place, int(np.prod(shape)) * np.dtype(kind).itemsize
        self.place += size - size % -ALIGNED
        return np.frombuffer(self.whole[begin : begin + size], kind).reshape(shape)  # a ValueError if it is too short

    def table(self, into: Tensor, *, by: float = 1.0, kind: type = np.float32) -> None:
        """Rows (.., D), whose width was rounded up."""
        found = self.take(*into.shape[:-1], up(into.shape[-1]), kind=kind)[..., : into.shape[-1]]
        into.copy_(torch.from_numpy(found.astype(np.float32) * np.float32(by)))

    def inputs(self, table: Embedding, stack: Stack, *, is_known: bool = False, has_segments: bool = True) -> None:
        _, places, segments = inputs(self.model, table, stack)
        if not is_known:
            self.table(table.weight, by=1 / table.scale, kind=np.float16 if self.has_halves else np.float32)
        if isinstance(position := stack.position, Learned):
            places = position.weight[position.offset : position.offset + len(places)]
        self.table(places)
        if has_segments and len(segments):
            self.table(segments)

    def norm(self, norm: Any) -> None:
        self.table(norm.weight)
        self.table(norm.bias)

    def product(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
        (out, inner), parts, is_output = weight.shape, self.parts_of(name, len(weight)), name.endswith("output")
        rows = parts * self.heads * up(self.width) if parts else up(out)
        columns = self.heads * up(self.width) if is_output else up(inner)
        groups = -(-rows // COLUMNS)
        if self.bits == 8:
            quads = self.take(groups, columns // QUAD, COLUMNS, QUAD, kind=np.int8)
            values = quads.transpose(0, 2, 1, 3).reshape(-1, columns)[:rows]
            scale, shift, _, inverse = (self.take(rows), self.take(rows), self.take(rows), self.take(columns))
            values = values * scale[:, None] * inverse
        else:
            grouped = self.take(groups, columns, COLUMNS, kind=np.float16 if self.bits == 16 else np.float32)
            values, shift = grouped.transpose(0, 2, 1).reshape(-1, columns)[:rows], self.take(rows)
        if parts:
            values, shift = self.of_heads(values.T).T, self.of_heads(shift)
        values = self.of_heads(values) if is_output else values[:, :inner]
        self.spread(name, torch.from_numpy(values[:out].astype(np.float32)), torch.from_numpy(shift[:out].copy()))

    def of_heads(self, array: Array) -> Array:
        """(.., parts * H * K) whose K was rounded up."""
        shape = array.shape[:-1]
        return array.reshape(*shape, -1, up(self.width))[..., : self.width].reshape(*shape, -1)

    def spread(self, name: str, weight: Tensor, bias: Tensor) -> None:
        """One product as the projections that it is of. A table of its own, rounded less, stays."""
        linears, by = self.projections[name]
        for i, linear in enumerate(linears):
            rows = slice(i * len(linear.weight), (i + 1) * len(linear.weight))
            if not any(linear.weight is table for table in self.tables):
                linear.weight.copy_(weight[rows] / (1 if i else by))
            if linear.bias is not None:
                linear.bias.copy_(bias[rows] / (1 if i else by))


@torch.no_grad()
def read(path: Path, model: Model) -> None:
    """Give a model that writes the weights of its file; refused if the file is of another one, or damaged."""
    if not can_write(model):
        raise InputError(f"{path} is not enough to build a {type(model).__name__}; copy its model.safetensors, too")
    try:
        FileReader(model, read_bytes(path, LARGEST)).fill()
    except (ValueError, struct.error):
        raise InputError(f"{path} is damaged, or of another model than config.json's; copy the folder again") from None
