"""Multiple choice: a text and some ways to go on or to answer in, the best of them out (RACE, SWAG, Story Cloze)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from qkv.config import Tree
from qkv.errors import InputError
from qkv.folder import About
from qkv.objectives import Asked
from qkv.objectives.answers import chosen
from qkv.tasks.corpus import Corpus
from qkv.tasks.on_backbone import OnBackbone
from qkv.tasks.pairs import in_common
from qkv.tasks.predictor import Predictor
from qkv.text import read_choices
from qkv.text.asking import parsed
from qkv.text.choices import as_question, checked, known
from qkv.text.examples import ChoiceQuestion
from qkv.text.tokenizer import Tokenizer

SHAPE = 'give {"context": "...", "choices": ["...", "..."]}, or the context and the choices with tabs between them'


class ChooseAnswers(OnBackbone):
    """Radford et al. 2018, section 3.3: the context is read with each choice by itself, and one softmax is over all."""

    name = "choose"
    shape = "choices"
    example_class = ChoiceQuestion
    objective = "choices"
    figures = ("loss", "accuracy")
    score = "accuracy"
    defaults = {"training": {"best_by": "accuracy"}}  # noqa: RUF012
    files = "JSON lines of context, choices and answer, for example: qkv train swag.jsonl --task choose --start bert"
    asks = 'qkv predict "a text" "a choice" "another choice"'
    key_is = "context"
    columns = 3
    one = (str, tuple, Mapping)

    def read(self, paths: Sequence[Path]) -> Iterator[ChoiceQuestion]:
        return read_choices(paths)

    def from_memory(self, given: Any, place: str) -> ChoiceQuestion:
        example = super().from_memory(given, place)
        if not all(isinstance(choice, str) for choice in example.choices):
            raise InputError(f"{place} has a choice that is no text; {SHAPE}")
        return known(checked(example), "give its number, from 0")

    def question(self, given: Any, place: str) -> ChoiceQuestion:
        given = parsed(given)
        if isinstance(given, Mapping):
            return as_question(given, place)
        texts = given.split("\t") if isinstance(given, str) else given
        if not isinstance(texts, list | tuple) or len(texts) < 3 or not all(isinstance(text, str) for text in texts):
            raise InputError(f"{place} is {given!r:.60}; {SHAPE}")
        context, *choices = texts
        return checked(ChoiceQuestion(context, choices, -1, place))

    def key(self, example: ChoiceQuestion) -> str:
        return example.context

    def texts(self, example: ChoiceQuestion) -> list[str]:
        return [example.context, *example.choices]

    def heads(self, facts: About) -> dict[str, str]:
        return {"choices": self.head("choices")}

    def encode(self, examples: Sequence[ChoiceQuestion], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(the context with each choice in their frame, the length of each, the number of the right one)"""
        rows = []
        for one in examples:
            context, *choices = tokenizer.encode_batch(self.texts(one))
            framed = self.framed([(context, choice) for choice in choices], tokenizer, facts)
            rows.append([[*chain.from_iterable(framed)], [*map(len, framed)], [max(0, one.answer)]])
        return rows

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """One at random, and the one that has most words in common with the context."""
        examples = corpus.valid_examples(ChoiceQuestion)
        likest = [max(range(len(e.choices)), key=lambda i: in_common(e.context, e.choices[i])) for e in examples]
        right = [found == example.answer for found, example in zip(likest, examples, strict=True)]
        chance = sum(1 / len(example.choices) for example in examples) / len(examples)
        return {"chance": chance, "most words in common": sum(right) / len(right)}

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[ChoiceQuestion], _: Predictor) -> list[Tree]:
        """The best choice, its number from 0, and the probability of each."""
        found = []
        for row, one in zip(chosen(outputs, asked).softmax(dim=1).tolist(), examples, strict=True):
            shares = row[: len(one.choices)]
            best = shares.index(max(shares))
            found.append({"answer": one.choices[best], "number": best, "probabilities": shares})
        return found
