"""Filling in: running text in, a model out that reads both ways and says what stands in a hole: how BERT begins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from qkv.config import Tree, setting
from qkv.data import Rows, RunningText, Stream, Windows, each_row
from qkv.engines.filler import Filler
from qkv.errors import InputError
from qkv.evaluation.ngrams import at_holes
from qkv.folder import About, Loaded
from qkv.models import Bert, Elmo, Model, UniLM, XLNet
from qkv.objectives import MaskedLM, Objective, objective, plain
from qkv.objectives.one_way import OneWay, SequenceToSequenceLM
from qkv.objectives.passages import BASE, COLUMNS
from qkv.tasks.corpus import Corpus, Scale
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
    carry: bool = setting(
        False, "windows go on from those before them; follows from the model, which has a memory or not (model.memory)"
    )
    rows: Literal["", "windows", "passages"] = setting(
        "",
        "windows of running text, or passages of whole sentences of a document; unless given, what the objective asks",
    )


class Fill(OnRunningText):
    """Devlin et al. 2019 (BERT): plain text to a model that says what is hidden; other tasks begin with it.

    XLNet is here too: it reads a text from both sides, and says what stands at a place that it does not see, though no
    <mask> is written there. It cannot write on: its blocks see both sides of a token.
    """

    name = "fill"
    kinds = (Bert, Elmo, XLNet)
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
        carry = rows == "windows" and getattr(config, "memory", 0) > 0
        if self.data.carry and not carry:
            raise InputError(
                "data.carry asks for windows that go on from those before them, which needs windows and a model with a "
                "memory; leave data.carry out, or set model.memory of xlnet"
            )
        return replace(super().settle(config, asked), rows=rows, carry=carry)

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

    def windows(self, rows: Rows, length: int, most: int | None = None) -> Windows:
        """One less than the model reads, since <s> stands before them; side by side no more than there is text for."""
        batch, length = max(1, self.data.batch_tokens // length), max(1, length - 1)
        if self.data.carry:
            batch = min(batch, max(1, len(RunningText(rows)) // (length + 1)))
        return Windows(rows, length=length, batch=batch, seed=self.data.seed, carry=self.data.carry)

    def check(self, rows: Rows, asked: Objective) -> None:
        """Whether the model reads as it is asked to; and whether there are the documents, and the phrases, for it."""
        one_way = any(isinstance(one, OneWay | SequenceToSequenceLM) for one in plain(asked))
        if one_way and not issubclass(self.model, UniLM):
            raise InputError(
                "the objective asks for texts that are read one way, and this model always reads both; train one with "
                "--architecture unilm, or leave that part of the objective out"
            )
        if issubclass(self.model, XLNet) and any(isinstance(one, MaskedLM) for one in plain(asked)):
            raise InputError(
                "masked_lm asks for words of which <mask> takes the place, and xlnet never reads one; ask it for "
                "permutation_lm"
            )
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

    def open(self, loaded: Loaded) -> Filler:
        backbone: Any = getattr(loaded.model, "backbone", loaded.model)
        most = backbone.config.max_length
        return Filler(loaded, frame=backbone.frame, most=most, batch_tokens=self.data.batch_tokens)

    def evaluate(self, loaded: Loaded, examples: Sequence[Any], *, by: str = "", **how: Any) -> Tree:
        """Texts are cut anew: windows may do for what was asked in training, and not for what it is measured by."""
        if objective(by or self.asked_of(self.model)).passages:
            self.data = replace(self.data, rows="", carry=False)
        return super().evaluate(loaded, examples, by=by, **how)

    def scored_by(self, loaded: Loaded) -> str:
        """All that the model was asked in training, each figure under its name; but not where it has lost the heads for
        that, as a folder of others' has."""
        asked = loaded.about.get("objective") or self.asked_of(self.model)
        heads: Any = getattr(loaded.model, "head_texts", {})
        return asked if objective(asked).heads.keys() <= heads.keys() else ""
