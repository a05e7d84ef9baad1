"""Classification: label and text in, a class out; by attention over words and sentences, or by any backbone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from qkv.config import Tree, setting
from qkv.errors import InputError
from qkv.folder import About, Loaded
from qkv.models import Backbone, Hierarchical, Model
from qkv.tasks.corpus import Survey
from qkv.tasks.labels import OneLabel
from qkv.tasks.on_backbone import BackboneConfig
from qkv.text import read_labelled
from qkv.text.asking import fields
from qkv.text.examples import Labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import Tokenizer

LONG = 512  # tokens, which is what BERT reads and most models after it


@dataclass(frozen=True, kw_only=True)
class LabelledConfig(BackboneConfig):
    """How labelled texts become ids and batches."""

    head: str = setting(
        "", "with a backbone: concat_classes (ULMFiT), attention_classes (SiATL), or classes; unless given, its own"
    )
    backward: bool = setting(False, "with a backbone: read each text from its end to its beginning")
    lowercase: bool = setting(True, "with the model hierarchical: read capital letters as small ones")
    max_words: int = setting(50, "with hierarchical: tokens of a sentence; a longer one is cut into several")
    max_sentences: int = setting(200, "with hierarchical: sentences of a text; those after them are left out")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_words < 1 or self.max_sentences < 1:
            raise ValueError("max_words and max_sentences must be at least 1")


class Classify(OneLabel):
    """Labelled texts to a classifier: hierarchical attention (Yang et al. 2016), or any backbone with a head on it."""

    name = "classify"
    shape = "labelled"
    example_class = Labelled
    kinds = (Hierarchical, Backbone)
    architecture = "hierarchical"
    data_class = LabelledConfig
    defaults = {  # noqa: RUF012
        "data": {"batch_tokens": 16384},
        "training": {"best_by": "accuracy", "schedule": "constant(warmup=20)", "learning_rate": 2e-3, "epochs": 20.0,
                     "patience": 6, "precision": "float32"},
    }  # fmt: skip
    files = "files of label and text (tsv, csv, jsonl, conllu), for example: qkv train reviews.tsv --task classify"

    def __init__(self, data: LabelledConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.by_sentence = issubclass(self.model, Hierarchical)
        self.columns = 3 if self.by_sentence else 2
        if self.by_sentence and (data.backward or data.head):
            raise InputError(
                "data.backward and data.head are for backbones, and the model is hierarchical; leave them out"
            )

    def read(self, paths: Sequence[Path]) -> Iterator[Labelled]:
        return read_labelled(paths)

    def question(self, given: Any, place: str) -> Labelled:
        [text] = fields(given, {"text": ["text", "sentence"]}, place)
        if not text.strip() or not self.sentences(text):
            raise InputError("a text without a word was given; give at least one sentence")
        return Labelled("", text, place)

    def texts(self, example: Labelled) -> list[str]:
        return self.sentences(example.text) if self.by_sentence else [example.text]

    def sentences(self, text: str) -> list[str]:
        return [one.lower() if self.data.lowercase else one for one in sentences(text)]

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        lowercase, words, sentences = self.data.lowercase, self.data.max_words, self.data.max_sentences
        known = super().facts(survey, tokenizer)
        if self.data.backward:
            known["backward"] = True
        return {**known, "lowercase": lowercase, "max_words": words, "max_sentences": sentences}

    def bounds(self, config: Any) -> About:
        return {} if self.by_sentence else super().bounds(config)

    def choose(self, survey: Survey, device: Any, training: Any) -> Tree:
        return {} if self.by_sentence else super().choose(survey, device, training)

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        return {"vocab_size": len(tokenizer), **({"n_classes": len(facts["labels"])} if self.by_sentence else {})}

    def heads(self, facts: About) -> dict[str, str]:
        return {} if self.by_sentence else super().heads(facts)

    def anew(self, start: Loaded, facts: About, heads: Mapping[str, str]) -> tuple[str, ...]:
        if self.by_sentence:
            return () if start.about.get("labels") == facts["labels"] else ("output.",)
        return super().anew(start, facts, heads)

    def encode(self, examples: Sequence[Labelled], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(the text in its frame, its label), or for hierarchical attention (words, sentence lengths, label)."""
        labels = self.numbers(examples, facts)
        if self.by_sentence:
            cut = [self.by_sentences(document.text, tokenizer) for document in examples]
            parted = zip(cut, labels, strict=True)
            return [[[*chain.from_iterable(parts)], [len(part) for part in parts], label] for parts, label in parted]
        rows = self.ids([document.text for document in examples], tokenizer)
        rows = [ids[::-1] for ids in rows] if self.data.backward else rows
        framed = self.framed([[ids] for ids in rows], tokenizer, facts)
        return [[ids, label] for ids, label in zip(framed, labels, strict=True)]

    def evaluate(self, loaded: Loaded, examples: Sequence[Any], *, by: str = "", **how: Any) -> Tree:
        """The figures of all texts, and the accuracy of long ones alone, where there are others too."""
        found = super().evaluate(loaded, examples, by=by, **how)
        sizes = [len(ids) for ids in loaded.tokenizer.encode_batch([one.text for one in examples])]
        long = [one for one, size in zip(examples, sizes, strict=True) if size > LONG]
        if not 0 < len(long) < len(examples) or "accuracy" not in found:
            return found
        return {**found, "long_accuracy": super().evaluate(loaded, long, by=by, **how)["accuracy"]}

    def by_sentences(self, text: str, tokenizer: Tokenizer) -> list[list[int]]:
        """The ids of each sentence; a sentence that is too long becomes several."""
        most, rows = self.data.max_words, tokenizer.encode_batch(self.sentences(text))
        cut = [row[i : i + most] for row in rows for i in range(0, len(row), most)]
        return cut[: self.data.max_sentences]
