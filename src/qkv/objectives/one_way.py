"""What UniLM is asked beside BERT's questions: words of texts that are read one way, and of one text after another."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from qkv.attention import LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE, TARGET
from qkv.config import setting
from qkv.data import Batch
from qkv.objectives import hiding
from qkv.objectives.continuation import padded_right
from qkv.objectives.hiding import Draw, Flags
from qkv.objectives.masked_lm import Hides, MaskedLM
from qkv.objectives.objective import Asked, Given, Loss
from qkv.objectives.passages import Passages, Read, read
from qkv.objectives.smoothing import chunked_cross_entropy
from qkv.text.tokenizer import BOS, PAD


class OneWay(MaskedLM):
    """A text read one way, as all of its segments say; by itself nothing."""

    segment: ClassVar[int]

    def arranged(self, batch: Batch, rng: torch.Generator, inputs: Given) -> tuple[dict[str, Any], Read]:
        text = read(batch, inputs)
        return {"segments": torch.full_like(text.ids, self.segment)}, text


class LeftToRight(OneWay):
    """Dong et al. 2019 (UniLM), section 2.3: a hidden word is told by those before it. Settings are masked_lm's."""

    segment = LEFT_TO_RIGHT


class RightToLeft(OneWay):
    """Dong et al. 2019 (UniLM), section 2.3: a hidden word is told by those after it. Settings are masked_lm's."""

    segment = RIGHT_TO_LEFT


class SequenceToSequenceLM(MaskedLM):
    """Dong et al. 2019 (UniLM), section 2.3: of two texts that follow each other the first is read both ways, the
    second by its own words before and the first. Words of both are hidden. Settings are masked_lm's.

    A passage is cut in two between sentences; one of a single sentence, between its tokens.
    """

    turn = 0
    passages = True

    def arranged(self, batch: Batch, rng: torch.Generator, inputs: Given) -> tuple[dict[str, Any], Read]:
        rows = Passages(batch, "sequence_to_sequence_lm")
        draws = torch.rand(len(rows), generator=rng, dtype=torch.float64).tolist()
        cut = [in_two(rows, row, draw) for row, draw in enumerate(draws)]
        return rows.arranged(cut, roles=(SOURCE, TARGET))


def in_two(rows: Passages, row: int, draw: float) -> tuple[hiding.Ints, hiding.Ints]:
    """The tokens of a passage before and after a place that a number from 0 to 1 draws."""
    n = len(rows.sizes[row])
    if n > 1:
        cut = 1 + int(draw * (n - 1))
        return rows.span(row, 0, cut), rows.span(row, cut, n)
    tokens = rows.span(row, 0, n)
    cut = min(len(tokens) - 1, 1 + int(draw * (len(tokens) - 1)))
    return tokens[:cut], tokens[cut:]


@dataclass(frozen=True, kw_only=True)
class MaskedTranslation(Hides):
    """Dong et al. 2019 (UniLM), section 2.4: words of the target alone are hidden, of n max(1, round(rate n)), and its
    end </s> is one of them: a model learns when to stop.

    Rows are (x1 .. xn </s>, <s> y1 .. ym </s>); the model reads <s> x1 .. xn </s> y1 .. ym </s>.

    Differs: the authors' code hides 48 to 64 tokens of a target at the most, which saves memory; here none are spared.
    """

    rate: float = setting(0.7, "the share of a target's tokens that are asked for, its end counted")
    label_smoothing: float = setting(0.1, "probability mass taken from the right word and spread over the others")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}")

    def arranged(self, batch: Batch, rng: torch.Generator, inputs: Given) -> tuple[dict[str, Any], Read]:
        ids, segments = joined(*batch.columns)
        return {"segments": segments}, Read(ids, segments, torch.zeros_like(ids))

    def choose(self, text: Read, draw: Draw) -> Flags:
        free: Flags = ((text.marks == TARGET) & (text.ids != PAD)).numpy()
        budget = np.rint(free.sum(axis=1) * self.rate).astype(np.int64).clip(min=1)
        return hiding.some(free, budget, draw)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        at, table = asked.labels != PAD, outputs.projection
        given = table.ready(outputs.hidden[at]), table.weight, table.bias, asked.labels[at]
        total, likelihood = chunked_cross_entropy(*given, smoothing=self.label_smoothing, form="fairseq", pad=PAD)
        return Loss(total, {"likelihood": likelihood})


def joined(src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
    """Sources (B, S) with their ends and targets (B, T) from <s> to </s> as one text each, and its segments: (B, ..).

    Padding moves to the right.
    """
    begin = src.new_full((len(src), 1), BOS)
    ids = torch.cat((begin, src, tgt[:, 1:]), dim=1)
    segments = torch.full_like(ids, SOURCE)
    segments[:, src.size(1) + 1 :] = TARGET
    return padded_right(ids, segments)
