"""Other people's tables of words and of places as ours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from qkv.convert.sentencepiece import Joined
from qkv.errors import InputError
from qkv.layers import NEVER
from qkv.positions.absolute import LAYOUTS, Waves
from qkv.text.tokenizer import BOS, PAD

LONGEST_README = 20_000  # characters that are looked through


@dataclass(frozen=True)
class Positions:
    """How places are told: a name in POSITIONS, how many there are, and their tables if they are learned."""

    name: str
    length: int
    weights: dict[str, Tensor] = field(default_factory=dict)


def find_positions(tables: Sequence[Tensor | None], width: int, usual: Positions) -> Positions:
    """The tables of encoder and decoder, as sines where they are; `usual` where there are none."""
    found = [table for table in tables if table is not None]
    if not found:
        return usual
    if len(found) < len(tables) or any(one.dim() != 2 or one.shape[1] != width for one in found) or not len(found[0]):
        raise InputError("encoder and decoder have positions of different kinds, which qkv has not; take another model")
    length = min(map(len, found))
    for layout, offset in product(LAYOUTS, (0, 1, 2)):
        waves = Waves(width, length, layout=layout, offset=offset).table
        if all(torch.allclose(table[:length], waves, atol=1e-4) for table in found):
            return Positions(f"sinusoidal(layout={layout!r}, offset={offset})", length)
    names = ("encoder.positions.0.weight", "decoder.positions.0.weight")
    return Positions("learned", length, {name: table[:length] for name, table in zip(names, found, strict=True)})


@dataclass(frozen=True)
class WordTables:
    """The tables of words that a translator has, in the order of our tokens and under our names."""

    weights: dict[str, Tensor]
    tied: str
    width: int

    @classmethod
    def make(
        cls, source: Tensor, target: Tensor, output: Tensor, bias: Tensor, words: Joined,
        scales: Sequence[float], *, zero_start: bool, name: str,
    ) -> "WordTables":  # fmt: skip
        """`words` says which of their rows is which of ours. A token that they never write gets no probability.

        `scales` are those of source and target: 0 for none, 1 for sqrt(d_model), another for itself. With `zero_start`
        what is written begins with zeros in the place of the vector of a first token.
        """
        width = source.shape[-1]
        if any(t.dim() != 2 or t.shape[1] != width for t in (source, target, output)) or bias.shape != output.shape[:1]:
            raise InputError(f"{name} has tables of words that do not fit each other; copy it again")
        ends = (max(words.source) >= len(source), max(words.target) >= min(len(target), len(output)))
        if any(ends):
            raise InputError(f"{name} has fewer words than its vocabulary; copy the whole folder again")
        is_one = source is target and words.is_shared
        silent = torch.tensor([row < 0 for row in words.target])
        first = picked(source, words.source)
        second = first if is_one else picked(target, words.target)
        third = second if output is target else picked(output, words.target)
        if zero_start:
            second = second.clone()
            second[BOS] = 0
            first = second if is_one else first
            third = second if output is target else third
        biases = picked(bias[:, None], words.target)[:, 0]
        biases[silent] = NEVER
        biases[[PAD, BOS]] = 0
        root = math.sqrt(width)
        factors = [1.0 if scale == 1 else (scale or 1.0) / root for scale in scales]
        ours = {"source.weight": first * factors[0], "target.weight": second * factors[1], "vocabulary.weight": third}
        tied = "none"
        if output is target and factors[1] == 1:
            tied = "all" if is_one and factors[0] == 1 else "decoder"
        kept = list(ours)[: {"all": 1, "decoder": 2, "none": 3}[tied]]
        return cls({key: ours[key] for key in kept} | {"vocabulary.bias": biases}, tied, width)


def picked(table: Tensor, rows: Sequence[int]) -> Tensor:
    """Rows of a table; zeros for -1."""
    chosen = torch.tensor(rows)
    return table[chosen.clamp(min=0)] * (chosen >= 0)[:, None]


def licence_in(text: str) -> str:
    """The line of a read-me that tells the licence; empty if none does."""
    lines = (" ".join(line.split()) for line in text[:LONGEST_README].splitlines())
    return next((line[:200] for line in lines if "licen" in line.lower()), "")
