"""What the readers yield, one class for each shape of data. `place` says where it stands: "train.en line 17"."""

from collections.abc import Sequence
from typing import NamedTuple


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    place: str


class Summarised(NamedTuple):
    """A document and its summary."""

    document: str
    summary: str
    place: str


class Monolingual(NamedTuple):
    """A sentence that is paired with none, and its language: a code, or nothing where there is one alone."""

    text: str
    language: str
    place: str


Spans = Sequence[Sequence[int]]  # parts of a text: where each begins, and where it ends


class Text(NamedTuple):
    """A document, or one piece of a long one: joined, the pieces are the document to the letter."""

    text: str
    place: str
    begins: bool  # a document; False in the pieces that go on with one
    phrases: Spans = ()
    names: Spans = ()

    def cut(self, at: int) -> tuple["Text", "Text"]:
        """What stands before a place and what stands after it; a phrase across it is none any more."""
        at = max(at, 0)
        before = ([span for span in spans if span[1] <= at] for spans in (self.phrases, self.names))
        after = ([[n - at for n in span] for span in spans if span[0] >= at] for spans in (self.phrases, self.names))
        first = Text(self.text[:at], self.place, self.begins, *before)
        return first, Text(self.text[at:], self.place, self.begins, *after)


class Labelled(NamedTuple):
    """A text with its class."""

    label: str
    text: str
    place: str


class LabelledPair(NamedTuple):
    """Two texts with their class, or with a number as it is written: how alike they are, for example."""

    first: str
    second: str
    label: str
    place: str


class Tagged(NamedTuple):
    """A sentence as words, and the tag of each."""

    words: list[str]
    tags: list[str]
    place: str


class Link(NamedTuple):
    """Two entities by their names, and how the first is related to the second."""

    head: str
    relation: str
    tail: str
    place: str


class SpanQuestion(NamedTuple):
    """A question about a text, and its answers: where each begins in the text, and what it says."""

    context: str
    question: str
    answers: list[tuple[int, str]]
    identity: str
    place: str


class ChoiceQuestion(NamedTuple):
    """A text, the ways in which it may go on or be answered, and the number of the right one, from 0; -1 if unknown."""

    context: str
    choices: list[str]
    answer: int
    place: str
