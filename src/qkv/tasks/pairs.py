"""Two texts in, and out comes what one is to the other: a class (MRPC, RTE), or how alike they are (STS-B)."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from qkv.config import Tree, merge, parse_call, setting, to_call
from qkv.errors import InputError
from qkv.evaluation import pearson, spearman
from qkv.folder import About
from qkv.models import Backbone, CausalBackbone, Model
from qkv.objectives import Asked
from qkv.objectives.answers import rated
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.labels import OneLabel
from qkv.tasks.on_backbone import BackboneConfig, OnBackbone
from qkv.tasks.predictor import Predictor
from qkv.text import read_labelled_pairs
from qkv.text.asking import Names, fields
from qkv.text.examples import LabelledPair
from qkv.text.labelled import LABELLED_PAIR_FIELDS
from qkv.text.tokenizer import Tokenizer

TEXTS: Names = {name: several for name, several in LABELLED_PAIR_FIELDS.items() if name != "label"}


class OnPairs(OnBackbone):
    """Devlin et al. 2019, Figure 4a: two texts in the backbone's frame, read as one."""

    example_class = LabelledPair
    asks = 'qkv predict "a text" "another text"'
    key_is = "pair of texts"
    names = TEXTS
    one = (str, tuple, Mapping)

    def read(self, paths: Sequence[Path]) -> Iterator[LabelledPair]:
        return read_labelled_pairs(paths)

    def question(self, given: Any, place: str) -> LabelledPair:
        first, second = fields(given, self.names, place)
        if not first.strip() or not second.strip():
            raise InputError(f"{place} has a text without a word; give two texts with at least a word in each")
        return LabelledPair(first, second, "", place)

    def key(self, example: LabelledPair) -> str:
        return f"{example.first}\t{example.second}"

    def texts(self, example: LabelledPair) -> tuple[str, str]:
        return example.first, example.second

    def both(self, examples: Sequence[LabelledPair], tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
        """The ids of both texts, without a frame."""
        firsts, seconds = (tokenizer.encode_batch(side) for side in zip(*map(self.texts, examples), strict=True))
        return list(zip(firsts, seconds, strict=True))


@dataclass(frozen=True, kw_only=True)
class PairConfig(BackboneConfig):
    """How pairs of texts with a label become ids and batches."""

    head: str = setting("", "what answers, in place of a linear layer: san(turns=5, dropping=0.1), of MT-DNN")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head and parse_call(self.head)[0] != "san":
            raise ValueError(f"head must be san, or empty for a linear layer, not {self.head!r}")


class JudgePairs(OnPairs, OneLabel):
    """Devlin et al. 2019, section 4.1: what one text is to another, as a class: a paraphrase, a consequence."""

    name = "pair"
    shape = "labelled_pairs"
    data_class = PairConfig
    defaults = {"training": {"best_by": "accuracy"}}  # noqa: RUF012
    files = "files of two texts and a label (tsv, csv, jsonl), for example: qkv train rte.tsv --task pair --start bert"

    def heads(self, facts: About) -> dict[str, str]:
        if not self.data.head:
            return super().heads(facts)
        assert issubclass(self.model, Backbone)
        if "</s>" not in self.model.frame.between:
            raise InputError(
                f"data.head is {self.data.head}, which must tell two texts apart, but a {self.model.__name__.lower()} "
                "reads them with no </s> between; leave it out, or start from a bert"
            )
        name, options = parse_call(self.data.head)
        return {"classes": to_call(name, {"n": len(facts["labels"]), **options})}

    def encode(self, examples: Sequence[LabelledPair], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(both texts in their frame, the label)"""
        framed = self.framed(self.both(examples, tokenizer), tokenizer, facts)
        return [[ids, label] for ids, label in zip(framed, self.numbers(examples, facts), strict=True)]


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig(BackboneConfig):
    """How pairs of texts with a number become ids and batches."""

    symmetric: bool = setting(False, "read the two texts in both orders and add what is said of them (GPT)")


class RatePairs(OnPairs):
    """Devlin et al. 2019, section 4.1 (STS-B): how alike two texts are, as a number; its squared error is lowered."""

    name = "similarity"
    shape = "rated_pairs"
    objective = "number"
    figures = ("loss", "pearson", "spearman")
    score = "pearson"
    data_class = SimilarityConfig
    defaults = {"training": {"best_by": "pearson"}}  # noqa: RUF012
    files = "files of two texts and a number (tsv, csv, jsonl), for example: qkv train sts.tsv --task similarity"

    def __init__(self, data: SimilarityConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.columns = 3 if data.symmetric else 2

    def read(self, paths: Sequence[Path]) -> Iterator[LabelledPair]:
        return map(checked, super().read(paths))

    def from_memory(self, given: Any, place: str) -> LabelledPair:
        """A number may be given as one."""
        if isinstance(given, Mapping) and isinstance(given.get("label"), int | float):
            given = {**given, "label": repr(given["label"])}
        elif isinstance(given, list | tuple) and given and isinstance(given[-1], int | float):
            given = [*given[:-1], repr(given[-1])]
        return checked(super().from_memory(given, place))

    def choose(self, survey: Survey, device: Any, training: Any) -> Tree:
        """Radford et al. 2018, section 3.3: there is no order in likeness, but a model that reads one way sees one."""
        symmetric = issubclass(self.model, CausalBackbone)
        return merge(super().choose(survey, device, training), {"data": {"symmetric": symmetric}})

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        return {"symmetric": self.data.symmetric}

    def heads(self, facts: About) -> dict[str, str]:
        return {"number": self.head("number")}

    def encode(self, examples: Sequence[LabelledPair], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(both texts in their frame, with `symmetric` the same in the other order, the number)"""
        both = self.both(examples, tokenizer)
        columns = [self.framed(both, tokenizer, facts)]
        if self.data.symmetric:
            counts = self.counts.copy()
            columns.append(self.framed([(second, first) for first, second in both], tokenizer, facts))
            self.counts = counts
        return [[*row] for row in zip(*columns, [halves(number(one)) for one in examples], strict=True)]

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        examples = corpus.valid_examples(LabelledPair)
        gold = [number(example) for example in examples]
        return {
            "words in common": pearson([in_common(*self.texts(example)) for example in examples], gold),
            "mean": 0.0,
        }

    def answers(self, outputs: Any, asked: Asked) -> tuple[Tensor, Tensor] | None:
        if asked.labels.dim() > 1:  # another objective was asked first, or alone
            return None
        return rated(outputs, asked), asked.labels

    def scored(self, found: list[Any], gold: list[Any]) -> dict[str, float]:
        return {"pearson": pearson(found, gold), "spearman": spearman(found, gold)}

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[Any], asker: Predictor) -> list[Tree]:
        return [{"score": value} for value in rated(outputs, asked).tolist()]


def checked(example: LabelledPair) -> LabelledPair:
    """A pair whose label is a number."""
    number(example)
    return example


def number(example: LabelledPair) -> float:
    """What a label says; 0 where there is none."""
    with suppress(ValueError, OverflowError):
        value = float(example.label or 0)
        if math.isfinite(value) and abs(value) < 1e15:  # whose squares float32 can add up
            return value
    raise InputError(f"{example.place} has {example.label[:40]!r} where a number was expected; give one, such as 3.5")


def halves(value: float) -> list[int]:
    """A number as two ids: the upper and the lower half of its bits in float32."""
    bits = int(np.float32(value).view(np.uint32))
    return [bits >> 16, bits & 0xFFFF]


def in_common(first: str, second: str) -> float:
    """Dice 1945: twice the words that two texts have in common, over the words of both."""
    a, b = (set(re.findall(r"\w+", text.lower())) for text in (first, second))
    return 2 * len(a & b) / max(1, len(a) + len(b))
