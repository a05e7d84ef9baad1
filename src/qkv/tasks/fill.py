"""Filling in: running text in, a model out that reads both ways and says what stands in a hole: how BERT begins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from qkv.config import setting
from qkv.data import Rows, Stream, Windows, each_row
from qkv.errors import InputError
from qkv.evaluation.ngrams import at_holes
from qkv.folder import About, Loaded
from qkv.models import Bert, Elmo, Model
from qkv.objectives import Objective, objective
from qkv.objectives.passages import BASE, COLUMNS
from qkv.tasks.corpus import Corpus, Scale
from qkv.tasks.filler import Filler
from qkv.tasks.passages import passages
from qkv.tasks.running_text import OnRunningText, RunningTextConfig
from qkv.tasks.task import Task
from qkv.text.examples import Text
from qkv.text.tokenizer import EOS, Tokenizer

AROUND = 3  # special tokens around two texts: <s> A </s> B </s>
COUNTED = 10**7  # tokens up to which words and pairs of words are counted


@dataclass(frozen=True, kw_only=True)
class MaskedTextConfig(RunningTextConfig):
    """How running text becomes rows of ids with words to hide."""

    tokenizer: str = setting(
        "wordpiece", "how sub-words are learned, by a name of `qkv list tokenizers`; or a tokenizer.json to use"
    )
    rows: Literal["", "windows", "passages"] = setting(
        "",
        "windows of running text, or passages of whole sentences of a document; unless given, what the objective asks",
    )


class Fill(OnRunningText):
    """Devlin et al. 2019 (BERT): plain text to a model that says what is hidden; other tasks begin with it."""

    name = "fill"
    kinds = (Bert, Elmo)
    architecture = "bert"
    objective = "masked_lm"
    figures = ("loss", "perplexity", "accuracy")
    data_class = MaskedTextConfig
    files = "plain text files or .jsonl with a text on each line, for example: qkv train wiki.txt --task fill"
    asks = 'qkv fill "A man in a red <mask>."'
    specials = ("<mask>",)
    opens = Filler
    scales = (
        (300_000, Scale(1_000, "tiny", 0.1, 2048, 40, 64), Scale(1_000, "tiny", 0.1, 4096, 40, 64)),
        (30_000_000, Scale(8_000, "mini", 0.1, 4096, 10, 128), Scale(8_000, "small", 0.1, 16384, 20, 128)),
        (math.inf, Scale(16_000, "mini", 0.1, 8192, 2, 128), Scale(30_000, "base", 0.1, 32768, 4, 512)),
    )
    rates = {"tiny": 1e-3, "mini": 1e-3, "small": 5e-4, "base": 1e-4}  # noqa: RUF012

    def __init__(self, data: MaskedTextConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.documents = 0  # that were encoded so far

    @property
    def by_passages(self) -> bool:
        return bool(self.data.rows == "passages")

    @property
    def columns(self) -> int:  # type: ignore[override]
        return COLUMNS if self.by_passages else 1

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        return not self.by_passages

    def settle(self, config: Any, asked: Objective) -> Any:
        rows = self.data.rows or ("passages" if asked.passages else "windows")
        if asked.passages and rows == "windows":
            raise InputError(
                "the objective asks about sentences, phrases or documents, and data.rows is windows, in which nothing "
                "tells where they end; leave data.rows out"
            )
        return replace(super().settle(config, asked), rows=rows)

    def encode(self, examples: Sequence[Text], tokenizer: Tokenizer, facts: About) -> list[Any]:
        if not self.by_passages:
            return super().encode(examples, tokenizer, facts)
        rows = list[Any]()
        for piece in examples:
            self.documents += piece.begins
            rows += passages(piece, self.documents, tokenizer, max(1, facts["window"] - AROUND))
        return rows

    def stream(self, rows: Rows) -> Stream:
        return Task.stream(self, rows) if self.by_passages else super().stream(rows)

    def validation(self, rows: Rows) -> Stream:
        return Task.stream(self, rows) if self.by_passages else super().validation(rows)

    def windows(self, rows: Rows, length: int) -> Windows:
        """One less than the model reads, since <s> stands before them."""
        batch = max(1, self.data.batch_tokens // length)
        return Windows(rows, length=max(1, length - 1), batch=batch, seed=self.data.seed)

    def check(self, rows: Rows, asked: Objective) -> None:
        """Whether there are the documents, and the phrases, that are asked about."""
        if not self.by_passages:
            return
        marks, documents = 0, set[int]()
        for _, _, marked, (high, low, _) in each_row(rows):
            marks |= int(np.bitwise_or.reduce(marked))
            documents.add(high * BASE + low)
        asked.check(len(documents), marks)

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """What counts of words say, and of pairs of words, at every place that may be hidden."""
        if max(rows.written.tokens[0] for rows in (corpus.train, corpus.valid)) > COUNTED:
            return {}
        train, valid = (
            np.array([*chain.from_iterable([EOS, *row[0]] for row in each_row(rows))], np.int64)
            for rows in (corpus.train, corpus.valid)
        )
        found = at_holes(train, valid, len(corpus.tokenizer), special=EOS)
        return {name: one.loss for name, one in found.items()}

    def about(self, corpus: Corpus) -> About:
        told = super().about(corpus)
        return {**told, "documents": self.data.documents} if self.by_passages else told

    def asked_of(self, loaded: Loaded) -> str:
        """All that the model was asked in training, each figure under its name; but not where it has lost the heads for
        that, as a folder of others' has."""
        asked = loaded.about.get("objective", self.objective)
        heads: Any = getattr(loaded.model, "head_texts", {})
        return asked if objective(asked).heads.keys() <= heads.keys() else ""
