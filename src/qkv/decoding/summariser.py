"""A summariser: a model folder, loaded, with a document in and its summary out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack, overload

from qkv.config import check_keys
from qkv.decoding.engine import Search, Searching
from qkv.decoding.searcher import Opened, Searched
from qkv.errors import InputError
from qkv.models import SequenceToSequence
from qkv.text.extract import Extract, extract
from qkv.text.normalise import normalise
from qkv.text.several import several
from qkv.text.tokenizer import BOS

TRIGRAMS = 3  # Paulus et al. 2018, section 2.5: no three tokens come twice


@dataclass(frozen=True)
class Summary:
    """One document, summarised. As a str it is the summary."""

    text: str
    score: float  # log p, divided by the length penalty
    read: int  # sentences of the document that the model has read
    sentences: int  # of the document
    cut: bool  # a sentence was longer than all that the model reads, and was read from its beginning
    ended: bool  # by itself, not at the limit

    def __str__(self) -> str:
        return self.text

    def remarks(self) -> list[str]:
        """What a person should know about this summary."""
        said = Extract([], self.read, self.sentences, self.cut).remarks()
        return said + ["has a summary that reached the length limit before its end"] * (not self.ended)


class Summariser(Opened):
    """What `qkv.load` gives for a model that summarises; a summary is the same whatever else is in the batch.

    >>> print(qkv.load("model").summarise(text, max_tokens=40))
    """

    @property
    def longest(self) -> int:
        """Tokens of a document that are read."""
        return self.about["max_length"]

    def limit(self, source: int) -> int:
        """Tokens that fit behind a document of that length, the end included."""
        model = self.model
        return model.room(source) if isinstance(model, SequenceToSequence) else int(model.config.max_length) - source

    @overload
    def summarise(  # type: ignore[overload-overlap]
        self, texts: str, *, min_tokens: int = ..., max_tokens: int = ..., **how: Unpack[Searching]
    ) -> Summary: ...
    @overload
    def summarise(
        self, texts: Iterable[str], *, min_tokens: int = ..., max_tokens: int = ..., **how: Unpack[Searching]
    ) -> list[Summary]: ...
    def summarise(
        self, texts: str | Iterable[str], *, min_tokens: int = 0, max_tokens: int = 0, **how: Unpack[Searching]
    ) -> Summary | list[Summary]:
        """Summarise a text, or each of several, in `min_tokens` to `max_tokens` tokens, unless given as many as the
        summaries that the model has learned from had. `how` are the fields of Search: beam=5, no_repeat=3 ...

        Of a text that is longer than the model reads, some sentences are read: see `text.extract`.
        """
        check_keys(Search, how, "search")
        most = max_tokens or self.about["max_target"]
        if not 0 <= min_tokens <= most:
            raise InputError(f"min_tokens={min_tokens} must be at least 0, and at most max_tokens, {most}")
        every = several(texts)
        for number, text in enumerate(every, start=1):
            if not text.strip():
                raise InputError(f"text {number} has no word to summarise; give texts with at least a word in each")
        read = [extract(text, self.tokenizer, self.longest) for text in every]
        sources = [self.source(one.ids) for one in read]
        limits = [min(most + 1, self.limit(len(one.ids))) for one in read]
        asked: Searching = {"no_repeat": TRIGRAMS, **how, "at_least": min_tokens}
        search = Search(**asked)
        found = self.search(sources, limits, search)
        done = [self.summary(*one) for one in zip(read, found, strict=True)]
        return done[0] if isinstance(texts, str) else done

    def source(self, ids: list[int]) -> list[int]:
        """What the model goes on from: the document, and for a model of one stack what stands behind it."""
        return ids if isinstance(self.model, SequenceToSequence) else [*ids, BOS]

    def summary(self, read: Extract, found: Searched) -> Summary:
        best = found.hypotheses[0]
        text = normalise(self.tokenizer.decode(best.tokens))
        return Summary(text, best.score, read.read, read.sentences, read.cut, best.ended)
