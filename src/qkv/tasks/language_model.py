"""Language modelling: running text in, a model out that writes on and says how likely a text is."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from qkv.config import Tree, merge, setting
from qkv.data import Rows, RunningText, Stream, Windows
from qkv.decoding import Generator
from qkv.engines import open_generator
from qkv.errors import InputError
from qkv.evaluation.ngrams import interpolated_trigram
from qkv.evaluation.perplexity import Likelihood
from qkv.folder import About, Loaded
from qkv.models import CausalBackbone
from qkv.tasks.corpus import Corpus, Scale, Survey
from qkv.tasks.task import Task, TextConfig
from qkv.text import read_texts
from qkv.text.examples import Text
from qkv.text.tokenizer import EOS, Tokenizer

TAIL = 10  # without validation files the last tenth of the text is held out,
PER_HELD_OUT = 1000  # at most so many characters for each of data.held_out
COUNTED = 10**7  # tokens up to which trigrams are counted: a second for a million, and some 100 MB


@dataclass(frozen=True, kw_only=True)
class RunningTextConfig(TextConfig):
    """How running text becomes windows of ids."""

    tokenizer: str = setting(
        "byte_bpe", "how sub-words are learned, by a name of `qkv list tokenizers`; or a tokenizer.json to use"
    )
    documents: Literal["file", "blank_lines", "lines"] = setting(
        "file", "what parts the documents of a plain file: the file's end, blank lines, or each line's end"
    )
    field: str = setting("text", "the key that holds the texts of a .jsonl file")
    window: int = setting(0, "tokens that are read at once; 0 for the model's whole context")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 0:
            raise ValueError(f"window must be a number of tokens, or 0 for the model's context, not {self.window}")


# Characters below; on a CPU, on a GPU.
SIZES: list[tuple[float, Scale, Scale]] = [
    (300_000, Scale(1_000, "tiny", 0.2, 2048, 20, 128), Scale(1_000, "tiny", 0.2, 4096, 20, 128)),
    (3_000_000, Scale(4_000, "tiny", 0.1, 4096, 10, 128), Scale(4_000, "small", 0.2, 8192, 20, 256)),
    (30_000_000, Scale(8_000, "small", 0.1, 4096, 4, 256), Scale(16_000, "small", 0.1, 16384, 10, 512)),
    (math.inf, Scale(16_000, "small", 0.0, 8192, 1, 256), Scale(32_000, "base", 0.1, 32768, 2, 1024)),
]
RATES = {"tiny": 1e-3, "small": 6e-4, "base": 3e-4}


class LanguageModel(Task):
    """Radford et al. 2019 (GPT-2): plain text to a model that writes on; what qkv train does with plain text."""

    name = "language_model"
    shape = "texts"
    example_class = Text
    kinds = (CausalBackbone,)
    architecture = "gpt2"
    objective = "causal_lm"
    figures = ("loss", "perplexity")
    data_class = RunningTextConfig
    files = "plain text files or .jsonl with a text on each line, for example: qkv train book.txt more/*.txt"
    asks = 'qkv generate "Once upon a time"'
    unit = "pieces of text"
    speed = "tokens"
    columns = 1
    in_order = True
    sample = 1_000
    sample_letters = 200 * 2**16  # which is 200 pieces of a long text

    def read(self, paths: Sequence[Path]) -> Iterator[Text]:
        return read_texts(paths, documents=self.data.documents, field=self.data.field)

    def from_memory(self, given: Any, place: str) -> Text:
        if not isinstance(given, str) or not given.strip():
            raise InputError(f"{place} is {given!r:.60}; a language model learns from texts that are not empty")
        return Text(given, place, True)

    def parted(self, examples: Iterable[Text], survey: Survey, hold_out: Callable[[Text], None]) -> Iterator[Text]:
        """The last part of the text is held out, wherever documents end: a tenth, up to a million characters."""
        left = survey.characters - min(survey.characters // TAIL, self.data.held_out * PER_HELD_OUT)
        for example in examples:
            here, there = example.text[: max(left, 0)], example.text[max(left, 0) :]
            if here:
                yield example._replace(text=here)
            if there:
                hold_out(example._replace(text=there, begins=example.begins or not survey.valid))
            left -= len(example.text)

    def encode(self, examples: Sequence[Text], tokenizer: Tokenizer, facts: About) -> list[tuple[list[int]]]:
        """</s> and the ids of a document; a long one goes on in the rows after it."""
        rows = tokenizer.encode_batch([piece.text for piece in examples])
        return [([EOS, *ids] if piece.begins else ids,) for ids, piece in zip(rows, examples, strict=True)]

    def bounds(self, config: Any) -> About:
        return {"window": self.data.window or config.max_length}

    def settle(self, config: Any) -> Any:
        return replace(self.data, **self.bounds(config))

    def stream(self, rows: Rows) -> Stream:
        return self.windows(rows, self.data.window)

    def validation(self, rows: Rows) -> Stream:
        """A text that is shorter than a window can be validated on."""
        return self.windows(rows, min(self.data.window, max(1, len(RunningText(rows)) - 1)))

    def windows(self, rows: Rows, length: int) -> Windows:
        return Windows(rows, length=length, batch=max(1, self.data.batch_tokens // length), seed=self.data.seed)

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        scale = next(cpu if device.type == "cpu" else gpu for below, cpu, gpu in SIZES if survey.characters < below)
        steps = max(1, survey.characters // 4 // scale.tokens)  # a token takes some four letters
        validate_every = 0 if 100 <= steps <= 1000 else 250
        return merge(
            scale.settings(survey.characters, steps, training, RATES, floor=", floor=0.1"),
            {"model": {"max_length": self.data.window or scale.window}},  # places after it would never be learned
            {"training": {"beta2": 0.95, "weight_decay": 0.1, "validate_every": validate_every}},
        )

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        context = model.get("max_length", max(self.data.window, 256))
        if self.data.window > context:
            raise InputError(
                f"data.window is {self.data.window} tokens, but the model's context (model.max_length) is {context}; "
                "make the window shorter or the context longer"
            )
        return {"vocab_size": len(tokenizer), "max_length": context}

    def counted(self, corpus: Corpus) -> str:
        tokens, valid = corpus.train.written.tokens[0], corpus.valid.written.tokens[0]
        return f"language model: {tokens:,} tokens to train on, {valid:,} to validate"

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        train, valid = RunningText(corpus.train), RunningText(corpus.valid)
        if len(train) > COUNTED or len(valid) < 4:
            return {}
        read, asked = train[slice(0, len(train))], valid[slice(0, len(valid))]
        return {"interpolated trigrams": interpolated_trigram(read, asked, len(corpus.tokenizer))}

    def evaluate(self, loaded: Loaded, examples: Sequence[Text], **how: Any) -> Tree:
        """Perplexity by token and by word, and bits by character, of all documents together."""
        documents: list[list[str]] = []
        for piece in examples:
            if piece.begins:
                documents.append([])
            documents[-1].append(piece.text)
        found = sum(self.open(loaded).score(["".join(pieces) for pieces in documents]), Likelihood(0.0, 0, 0, 0))
        return {
            "loss": found.nats / found.tokens, "perplexity": found.perplexity,
            "word_perplexity": found.word_perplexity, "bits_per_character": found.bits_per_character,
        }  # fmt: skip

    def open(self, loaded: Loaded, **how: Any) -> Generator:
        return open_generator(loaded, **how)
