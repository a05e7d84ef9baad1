"""Models that the native engine is tested with, and what its searches are compared by."""

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from kit import stirred, tiny_model
from qkv.decoding import Hypothesis
from qkv.engines.native.file import write
from qkv.engines.native.library import HELD, Native
from qkv.engines.native.writer import NativeWriter
from qkv.engines.products import Dense, Product

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
        return NativeWriter(plain, Native(place / "model.qkv"))


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


def halved(name: str, weight: Tensor, bias: Tensor | None, activation: str) -> Product:
    """Makes the products of weights rounded to float16."""
    return Dense(name, weight.half().float(), bias, activation)
