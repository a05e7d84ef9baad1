"""Summaries: documents with their summaries in, a model out that writes a summary of a document."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch

from qkv.config import Tree, merge, setting
from qkv.decoding import Summariser
from qkv.engines import open_summariser
from qkv.errors import InputError
from qkv.evaluation import rouge
from qkv.evaluation.rouge import Rouge, compared, cut, mean_of_best
from qkv.folder import About, Loaded
from qkv.models import Backbone, CausalBackbone, EncoderDecoder, Model, SequenceToSequence
from qkv.objectives import Objective
from qkv.tasks.corpus import Corpus, Found, Survey
from qkv.tasks.on_backbone import gentle
from qkv.tasks.on_encoder_decoder import OnEncoderDecoder
from qkv.tasks.task import Task
from qkv.tasks.text_config import TextConfig
from qkv.text import read_summaries
from qkv.text.examples import Summarised
from qkv.text.extract import extract, sentences_of
from qkv.text.normalise import normalise
from qkv.text.tokenizer import BOS, EOS, Tokenizer
from qkv.wording import count_of

SIMPLE = {  # what needs no model; the last needs the summary itself, so that no model has it
    "lead": "first sentence",
    "cut": "first sentence, cut at its summary's length",
    "oracle": "best sentence, chosen by its summary",
}
CONTEXT = 1024  # tokens, of a new model where nobody asks for another


@dataclass(frozen=True, kw_only=True)
class SummariseConfig(TextConfig):
    """How documents and their summaries become ids and batches."""

    max_length: int = setting(
        0, "tokens of a document; of a longer one the sentences nearest to its first are read. 0 for what fits"
    )
    max_target: int = setting(80, "tokens of a summary: longer ones are left out and counted, and none is written")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 0 or self.max_target < 1:
            raise ValueError(
                f"max_length={self.max_length} must be at least 1, or 0 for what fits, and max_target="
                f"{self.max_target} at least 1"
            )


class Summarise(OnEncoderDecoder):
    """Liu et al. 2018: a document to a summary, by a decoder that reads both as one text, or by an encoder and a
    decoder; what is too long to be read goes through an extractive stage first."""

    name = "summarise"
    shape = "summaries"
    example_class = Summarised
    kinds: ClassVar[tuple[type[Model], ...]] = (SequenceToSequence, CausalBackbone)
    architecture = "gpt2"
    objective = "continuation"
    figures = ("loss", "rouge_1", "rouge_2", "rouge_l")
    score = "rouge_l"
    data_class = SummariseConfig
    defaults = {"training": {"bleu_sentences": 50}}  # noqa: RUF012
    files = "files of documents and summaries (jsonl, tsv, csv), for example: qkv train papers.jsonl --task summarise"
    asks = "qkv summarise paper.txt"
    unit = "documents"
    key_is = "document"
    columns = 2
    sizes = (0, 1)
    opens = Summariser

    @classmethod
    def models(cls) -> dict[str, type[Model]]:
        """Those that read a document whole."""
        return {name: model for name, model in super().models().items() if not getattr(model, "endless", False)}

    @classmethod
    def asked_of(cls, model: type[Model]) -> str:
        if issubclass(model, SequenceToSequence):
            return "translation" if issubclass(model, EncoderDecoder) else "masked_translation"
        return cls.objective

    def __init__(self, data: SummariseConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.skipped = Counter[str]()

    # -- from files to batches -----------------------------------------------------------------------------------

    def read(self, paths: Sequence[Path]) -> Iterator[Summarised]:
        self.skipped.clear()
        return read_summaries(paths, self.skipped)

    def examine(
        self, examples: Iterator[Summarised], held_out: Container[str], found: Found, name: str
    ) -> Iterator[Summarised]:
        yield from super().examine(examples, held_out, found, name)
        found.findings += [f"{count:,} {what}: left out" for what, count in self.skipped.items()]

    def key(self, example: Summarised) -> str:
        return normalise(example.document)

    def texts(self, example: Summarised) -> tuple[str, str]:
        return example.document, example.summary

    def encode(
        self, examples: Sequence[Summarised], tokenizer: Tokenizer, facts: About
    ) -> list[tuple[list[int], list[int]]]:
        """(x1 .. xn </s>, <s> y1 .. ym </s>)"""
        documents = [extract(one.document, tokenizer, facts["max_length"]) for one in examples]
        self.counts["shortened"] += sum(one.read < one.sentences for one in documents)
        self.counts["cut"] += sum(one.cut for one in documents)
        summaries = tokenizer.encode_batch([normalise(one.summary) for one in examples])
        both = zip(documents, summaries, strict=True)
        return [([*document.ids, EOS], [BOS, *summary, EOS]) for document, summary in both]

    @property
    def longest(self) -> tuple[int, ...]:
        return (self.data.max_length + 1, self.data.max_target + 2) if self.data.max_length else ()

    def too_long(self) -> str:
        return f"had a summary of over {self.data.max_target} tokens"

    def remarks(self) -> list[str]:
        how = "the sentences nearest to the first by tf-idf were taken"
        shortened, cut = self.counts["shortened"], self.counts["cut"]
        said = [f"{count_of(shortened, 'documents')} had more tokens than the model reads: {how}"] * (shortened > 0)
        return said + [f"{cut:,} began with a sentence that is too long by itself: cut"] * (cut > 0)

    # -- settings and model --------------------------------------------------------------------------------------

    @property
    def is_one_stack(self) -> bool:
        return issubclass(self.model, Backbone)

    def context(self, source: int, target: int) -> int:
        """The max_length that a document and a summary of these lengths need: x <s> y, or what the model says."""
        return self.model.context(source, target) if issubclass(self.model, SequenceToSequence) else source + target + 1

    def bounds(self, config: Any) -> About:
        most = config.max_length - (self.context(0, self.data.max_target) if self.is_one_stack else 2)
        if self.data.max_length > most or most < 1:
            raise InputError(
                f"the model's context (model.max_length) is {config.max_length} tokens, which leaves {max(0, most)} "
                f"for a document, and data.max_length is {self.data.max_length}; make the context longer, or "
                "data.max_length and data.max_target shorter"
            )
        return {"max_length": self.data.max_length or most, "max_target": self.data.max_target}

    def settle(self, config: Any, asked: Objective) -> Any:
        return replace(self.data, max_length=self.bounds(config)["max_length"])

    def needed(self) -> tuple[int, str]:
        return self.context(self.data.max_length or 1, self.data.max_target), "document, summary and what parts them"

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        chosen = super().choose(survey, device, training)
        if self.is_one_stack:
            chosen["model"].pop("norm")  # they have their own
        new: Tree = {"data": {"batch_tokens": max(4096, chosen["data"]["batch_tokens"])}}
        if self.start:
            new["training"] = {"learning_rate": gentle(self.start)}
        else:
            new["model"] = {"max_length": max(CONTEXT, self.needed()[0])}
        return merge(chosen, new)

    def about(self, corpus: Corpus) -> About:
        return Task.about(self, corpus)

    # -- what comes of it ----------------------------------------------------------------------------------------

    def open(self, loaded: Loaded, **how: Any) -> Any:
        return open_summariser(loaded, **how)

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        simple = without_a_model(together(corpus.valid_examples(Summarised)))
        by = {"": "rouge_l", ", by ROUGE-1": "rouge_1", ", by ROUGE-2": "rouge_2"}
        return {name + said: getattr(simple[key], by[said]) for said in by for key, name in SIMPLE.items()}

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        """ROUGE of the first documents to validate on."""
        documents = together(corpus.valid_examples(Summarised, training.bleu_sentences))
        facts = cast(About, {**loaded.about, **self.bounds(loaded.model.config)})

        def measured() -> dict[str, float]:
            summariser = Summariser(loaded.model, loaded.tokenizer, facts)
            return written(summariser, documents, beam=1)

        return measured if documents else dict

    def evaluate(self, loaded: Loaded, examples: Sequence[Any], *, by: str = "", **how: Any) -> Tree:
        """ROUGE of the summaries, beside that of some sentence of each document."""
        if by:
            return super().evaluate(loaded, examples, by=by)
        documents = together(examples)
        simple = {
            f"{key}_{name}": value
            for key, one in without_a_model(documents).items() for name, value in one._asdict().items()
        }  # fmt: skip
        return {**written(self.open(loaded, engine="float32"), documents, **how), **simple}


def together(examples: Sequence[Summarised]) -> dict[str, list[str]]:
    """Each document once, with all its summaries."""
    found: dict[str, list[str]] = {}
    for example in examples:
        found.setdefault(example.document, []).append(example.summary)
    return found


def written(summariser: Summariser, documents: dict[str, list[str]], **how: Any) -> dict[str, float]:
    """ROUGE-1, -2 and -L of what is written; of several summaries of a document the best counts."""
    texts = [one.text for one in summariser.summarise([*documents], **how)]
    return rouge(texts, [*documents.values()])._asdict()


def without_a_model(documents: dict[str, list[str]]) -> dict[str, Rouge]:
    """The same of what SIMPLE names: the best sentence is the one of the best ROUGE-L."""
    several, references = [sentences_of(document) or [""] for document in documents], [*documents.values()]
    leads = [sentences[0] for sentences in several]
    best = [
        max(sentences, key=lambda one: max(compared(one, summary).rouge_l for summary in summaries))
        for sentences, summaries in zip(several, references, strict=True)
    ]
    short = [[(cut(lead, one), one) for one in summaries] for lead, summaries in zip(leads, references, strict=True)]
    return {"lead": rouge(leads, references), "cut": mean_of_best(short), "oracle": rouge(best, references)}
