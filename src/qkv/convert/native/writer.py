"""A model as a file of the native engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qkv.convert.native.layout import (
    ALIGNED,
    CHECKED_FROM,
    COLUMNS,
    HEADER,
    LANES,
    QUAD,
    Array,
    FileLayout,
    checksum,
    inputs,
    numbers,
    wide,
)  # fmt: skip
from qkv.errors import InputError
from qkv.files import write_with
from qkv.layers import Embedding, Stack
from qkv.models import Model

LEVELS = 127  # of a weight in 8 bits, on each side of 0
MOST = float(np.finfo(np.float16).max)


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """W (F, D) -> int8 values (F, D) and a scale for each row (F,), so that values * scale is near W."""
    scale = weight.abs().amax(dim=1).clamp(min=1e-8) / LEVELS
    return (weight / scale[:, None]).round().to(torch.int8), scale


def fits_halves(table: Array) -> bool:
    """Whether float16 has bits enough for these vectors: it ends at 65,504, and loses bits below 2^-14."""
    most = np.abs(table).max()
    return most <= MOST and bool((np.abs(table.astype(np.float16) - table) <= most * 2.0**-11).all())


class FileWriter(FileLayout):
    def __init__(self, model: Any, bits: int, smooth: Mapping[str, Tensor]) -> None:
        super().__init__(model, bits)
        self.smooth, self.whole = smooth, bytearray(HEADER.size)
        self.has_halves = bits != 32 and all(
            fits_halves(numbers(part.weight * part.scale)) for part in model.modules() if isinstance(part, Embedding)
        )

    def put(self, array: Array, kind: type = np.float32) -> None:
        self.whole += np.ascontiguousarray(array, kind).tobytes()
        self.whole += bytes(-len(self.whole) % ALIGNED)

    def inputs(self, table: Embedding, stack: Stack, *, is_known: bool = False, has_segments: bool = True) -> None:
        tokens, places, segments = (wide(numbers(rows), LANES) for rows in inputs(self.model, table, stack))
        if not is_known:
            self.put(tokens, np.float16 if self.has_halves else np.float32)
        self.put(places)
        if has_segments:
            self.put(segments)

    def norm(self, norm: Any) -> None:
        for part in (norm.weight, norm.bias):
            self.put(wide(numbers(part), LANES))

    def by_heads(self, array: Array, parts: int) -> Array:
        """(.., parts * H * K) with K rounded up."""
        shape = array.shape[:-1]
        return wide(array.reshape(*shape, parts * self.heads, self.width), LANES).reshape(*shape, -1)

    def product(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
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

    def file(self, made_of: str) -> bytearray:
        """The whole file, of weights with that SHA-256."""
        self.walk()
        self.whole[: HEADER.size] = self.header(len(self.whole), made_of)
        self.whole[CHECKED_FROM - 8 : CHECKED_FROM] = checksum(self.whole).to_bytes(8, "little")
        return self.whole


@torch.no_grad()
def as_file(model: Model, bits: int, smooth: Mapping[str, Tensor] | None = None, made_of: str = "") -> bytearray:
    return FileWriter(model, bits, smooth or {}).file(made_of or "00" * 32)


def write(
    path: Path, model: Model, *, bits: int = 8, smooth: Mapping[str, Tensor] | None = None, made_of: str = ""
) -> None:
    """A model's file, in 8 bits, 16 or 32; `smooth` are what inputs of products are divided by in 8 bits (see
    engines/quantize.py), `made_of` the SHA-256 of its weights."""
    whole = as_file(model, bits, smooth, made_of)
    write_with(path, lambda temporary: temporary.write_bytes(whole))
