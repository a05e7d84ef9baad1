"""What tasks share that learn from running text: documents in, windows of ids out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from qkv.config import Tree, merge, setting
from qkv.data import Rows, RunningText, Stream, Windows
from qkv.errors import InputError
from qkv.folder import About
from qkv.models import Backbone, Model
from qkv.objectives import Objective
from qkv.tasks.corpus import Corpus, Scale, Survey
from qkv.tasks.spool import Spooled
from qkv.tasks.task import Task
from qkv.tasks.text_config import TextConfig
from qkv.text import read_texts
from qkv.text.examples import Text
from qkv.text.tokenizer import EOS, Tokenizer

TAIL = 10  # without validation files the last tenth of the text is held out,
PER_HELD_OUT = 1000  # at most so many characters for each of data.held_out
CARRIED = 70  # tokens that a model reads at once which goes on from the state before them (Merity et al. 2018)


@dataclass(frozen=True, kw_only=True)
class RunningTextConfig(TextConfig):
    """How running text becomes windows of ids."""

    tokenizer: str = setting(
        "byte_bpe", "how sub-words are learned, by a name of `qkv list tokenizers`; or a tokenizer.json to use"
    )
    documents: Literal["file", "blank_lines", "lines", "labelled"] = setting(
        "file",
        "what parts the documents of a plain file: the file's end, blank lines, or each line's end; of files of labels "
        "and texts, labelled takes the texts alone",
    )
    field: str = setting("text", "the key that holds the texts of a .jsonl file")
    window: int = setting(0, "tokens that are read at once; 0 for the model's whole context")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 0:
            raise ValueError(f"window must be a number of tokens, or 0 for the model's context, not {self.window}")


class OnRunningText(Task):
    """Documents one behind the other, read window by window."""

    shape = "texts"
    example_class = Text
    data_class: ClassVar[type[RunningTextConfig]] = RunningTextConfig
    unit = "pieces of text"
    speed = "tokens"
    columns = 1
    in_order = True
    scales: ClassVar[tuple[tuple[float, Scale, Scale], ...]]  # characters below; what suits a CPU, and a GPU
    rates: ClassVar[dict[str, float]]  # the learning rate of each size of the model
    sample = 1_000
    sample_letters = 200 * 2**16  # which is 200 pieces of a long text

    @classmethod
    def asked_of(cls, model: type[Model]) -> str:
        return model.learns_by or cls.objective

    def read(self, paths: Sequence[Path]) -> Iterator[Text]:
        return read_texts(paths, documents=self.data.documents, field=self.data.field)

    def from_memory(self, given: Any, place: str) -> Text:
        if not isinstance(given, str) or not given.strip():
            raise InputError(f"{place} is {given!r:.60}; {self.name} learns from texts that are not empty")
        return Text(given, place, True)

    def parted(self, chunks: Iterable[Spooled], survey: Survey, hold_out: Callable[[Text], None]) -> Iterator[Spooled]:
        """The last part of the text is held out, wherever documents end: a tenth, up to a million characters."""
        left = survey.characters - min(survey.characters // TAIL, self.data.held_out * PER_HELD_OUT)
        for chunk in chunks:
            if chunk.letters <= left:
                left -= chunk.letters
                yield chunk
                continue
            kept = []
            for example in chunk.examples():
                here, there = example.cut(left)
                if here.text:
                    kept.append(here)
                if there.text:
                    hold_out(there._replace(begins=example.begins or not survey.valid))
                left -= len(example.text)
            if kept:
                yield Spooled.of(chunk.kind, kept)

    def encode(self, examples: Sequence[Text], tokenizer: Tokenizer, facts: About) -> list[tuple[list[int]]]:
        """</s> and the ids of a document; a long one goes on in the rows after it."""
        rows = tokenizer.encode_batch([piece.text for piece in examples])
        return [([EOS, *ids] if piece.begins else ids,) for ids, piece in zip(rows, examples, strict=True)]

    def bounds(self, config: Any) -> About:
        return {"window": self.data.window or (CARRIED if self.endless else config.max_length)}

    @property
    def backward(self) -> bool:
        """Whether texts are read from their end."""
        return False

    @property
    def endless(self) -> bool:
        """Whether the model goes on from window to window."""
        return issubclass(self.model, Backbone) and self.model.endless

    def settle(self, config: Any, asked: Objective) -> Any:
        return replace(self.data, **self.bounds(config))

    def stream(self, rows: Rows) -> Stream:
        return self.windows(rows, self.data.window)

    def validation(self, rows: Rows) -> Stream:
        """A text that is shorter than a window, or than all that are read side by side, can be validated on."""
        tokens = len(RunningText(rows))
        length = min(self.data.window, max(1, tokens - 1))
        return self.windows(rows, length, most=max(1, tokens // (length + 1)) if self.endless else None)

    def windows(self, rows: Rows, length: int, most: int | None = None) -> Windows:
        """At most `most` of them in a batch."""
        batch, seed = max(1, self.data.batch_tokens // length), self.data.seed
        how = {"carry": self.endless, "backward": self.backward}
        return Windows(rows, length=length, batch=min(batch, most or batch), seed=seed, **how)

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        scale = next(
            cpu if device.type == "cpu" else gpu for below, cpu, gpu in self.scales if survey.characters < below
        )
        steps = max(1, survey.characters // 4 // scale.tokens)  # a token takes some four letters
        validate_every = 0 if 100 <= steps <= 1000 else 250
        return merge(
            scale.settings(survey.characters, steps, training, self.rates, floor=", floor=0.1"),
            {"data": {"tokenizer": self.model.sub_words} if self.model.sub_words else {}},
            {"model": {} if self.endless else {"max_length": self.data.window or scale.window}},  # no place unlearned
            {"training": {"beta2": 0.95, "weight_decay": 0.1, "validate_every": validate_every}},
        )

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        if self.endless:
            return {"vocab_size": len(tokenizer)}
        context = model.get("max_length", max(self.data.window, 256))
        if self.data.window > context:
            raise InputError(
                f"data.window is {self.data.window} tokens, but the model's context (model.max_length) is {context}; "
                "make the window shorter or the context longer"
            )
        return {"vocab_size": len(tokenizer), "max_length": context}

    def counted(self, corpus: Corpus) -> str:
        tokens, valid = corpus.train.written.tokens[0], corpus.valid.written.tokens[0]
        return f"{self.name}: {tokens:,} tokens to train on, {valid:,} to validate"
