"""Models that the native engine is tested with, and what its searches are compared by."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kit import stirred, tiny_model
from qkv.convert.native import blocks_of, write
from qkv.decoding import Hypothesis
from qkv.engines.native.library import HELD, Native
from qkv.engines.native.writer import NativeWriter
from qkv.layers import Embedding
from qkv.models import GPT2, Transformer

PATHS = ["avx512", "avx2", "plain"]  # a processor that has not the first takes the next
FORMS = ["transformer", "gpt2"]
POSITIONS = ["sinusoidal", "learned", "learned(length=36, offset=2)", "none"]
WORDS = 90


def model(name: str = "transformer", **given: Any) -> Any:
    sizes = {"layers": 2, "encoder_layers": 2, "decoder_layers": 2, "n_heads": 4, "max_length": 40}
    return stirred(tiny_model(name, **(sizes | {"vocab_size": WORDS} | given)), 0.2).eval()


def engine(place: Path, plain: Any, bits: int = 32, held: str = "") -> NativeWriter:
    write(place / "model.qkv", plain, bits=bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HELD, held)
        return NativeWriter.of(plain, Native(place / "model.qkv"))


def tokens(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[one.tokens for one in some] for some in found]


def same(ours: list[list[Hypothesis]], exact: list[list[Hypothesis]]) -> None:
    """Token for token, and near in score; texts of the same score, to the last bits of it, may come in any order."""
    for some, others in zip(ours, exact, strict=True):
        for one, other in zip(some, others, strict=True):
            assert one.tokens == other.tokens or one.score == pytest.approx(other.score, rel=2e-6, abs=1e-5)
            assert one.ended == other.ended
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4 * (1 + len(one.tokens)))
            assert one.score == pytest.approx(other.score, rel=1e-4, abs=1e-3)


class Product(nn.Module):
    """`compute` (x, W) and a bias, in the place of a linear layer."""

    def __init__(self, linear: Any, compute: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.bias, self.compute = linear.weight.detach(), linear.bias, compute

    def forward(self, x: Tensor) -> Tensor:
        found = self.compute(x, self.weight)
        return found if self.bias is None else found + self.bias


def with_products(plain: Any, make: Callable[[str], Callable[[Tensor, Tensor], Tensor]]) -> Any:
    """The same model, whose products are computed as `make` says of their names in the engine's file."""
    twin = copy.deepcopy(plain)
    for name, block in blocks_of(twin).items():
        own, ways, other = block.attention, block.feed_forward, getattr(block, "memory_attention", None)
        named = [(own, "query", "qkv"), (own, "key", "qkv"), (own, "value", "qkv"), (own, "output", "output")]
        named += [(ways, "expand", "expand"), (ways, "contract", "contract")]
        if other is not None:
            named += [(other, "query", "memory_query"), (other, "key", "memory"), (other, "value", "memory")]
            named += [(other, "output", "memory_output")]
        for owner, part, of in named:
            setattr(owner, part, Product(getattr(owner, part), make(f"{name}.{of}.{part}")))
        own.fused = False  # or q, k and v would be one product again
    if isinstance(twin, Transformer | GPT2):
        end = "vocabulary" if isinstance(twin, Transformer) else "projection"
        setattr(twin, end, Product(getattr(twin, end), make("vocabulary")))
    for table in (part for part in twin.modules() if isinstance(part, Embedding)):
        table.weight = nn.Parameter(in_float16(table))
    return twin


def in_float16(table: Embedding) -> Tensor:
    """A table of vectors as a file has it, if float16 has the bits."""
    read = table.weight.detach() * table.scale
    near = read.half().float()
    return near / table.scale if (near - read).abs().max() <= read.abs().max() / 2048 else table.weight.detach()


def halved(plain: Any) -> Any:
    """The same model with the weights of products rounded to float16; those of queries with 1 / sqrt(K) in them."""
    scale = plain.config.head_width**-0.5

    def make(name: str) -> Callable[[Tensor, Tensor], Tensor]:
        by = scale if name.endswith(".query") else 1.0
        return lambda x, weight: x @ ((weight * by).half().float() / by).T

    return with_products(plain, make)


def rounded(plain: Any, smooth: dict[str, Tensor]) -> Any:
    """... with the engine's arithmetic of 8 bits, in float64: rows of x and of W as whole numbers up to 127."""

    def whole(x: Tensor) -> tuple[Tensor, Tensor]:
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127
        return (x / scale).round(), scale

    def make(name: str) -> Callable[[Tensor, Tensor], Tensor]:
        by = smooth.get(name.rpartition(".")[0], torch.ones(1))

        def compute(x: Tensor, weight: Tensor) -> Tensor:
            (rows, a), (columns, b) = whole(x / by), whole(weight * by)
            return (rows.double() @ columns.double().T * a * b[:, 0]).float()

        return compute

    return with_products(plain, make)
