"""A translator: a model folder, loaded, with text in and text out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast, overload

from qkv.config import check_keys
from qkv.decoding.engine import Search
from qkv.decoding.searcher import Opened, Searched
from qkv.models import SequenceToSequence
from qkv.text.language import is_unspaced
from qkv.text.normalise import normalise
from qkv.text.sentences import split_sentences, split_to_fit

MORE = 50  # tokens that a translation may have more than its source (Vaswani et al. 2017, section 6.1)


class Scored(NamedTuple):
    """A text and its score: log p, divided by the length penalty; 0 is certain, lower is less so."""

    text: str
    score: float


@dataclass(frozen=True)
class Translated:
    """One input line, translated."""

    text: str
    score: float
    alternatives: list[Scored] = field(default_factory=list)  # the n best, this one first
    sentences: int = 1  # each is translated by itself
    parts: int = 1  # as many; more, if a sentence was too long for the model
    looped: bool = False  # the first attempt repeated itself; this is the second, without repetitions
    cut: bool = False  # the limit was reached before the model ended its sentence

    def remarks(self) -> list[str]:
        """What a person should know about this line."""
        long = f"was longer than the model's training sentences and was translated in {self.parts} parts"
        said = [long] * (self.parts > self.sentences)
        said += ["ran in a loop at first and was decoded again without repetitions"] * self.looped
        return said + ["reached the length limit before its end"] * self.cut


class Translator(Opened):
    """`qkv.load(folder).translate(texts)`; a text's translation is the same whatever else is in the batch."""

    catches_loops = True

    @property
    def longest(self) -> int:
        """The tokens of the longest sentence that the model has learned from and can read."""
        return min(self.about.get("longest_source", 10**9), self.writer.longest_source)

    @property
    def writer(self) -> SequenceToSequence:
        return cast(SequenceToSequence, self.model)

    def limits(self, sources: list[list[int]]) -> list[int]:
        """How many tokens each translation may have, the end included."""
        return [min(len(ids) + MORE, self.writer.room(len(ids))) for ids in sources]

    @overload
    def translate(self, texts: str, **how: Any) -> Translated: ...
    @overload
    def translate(self, texts: Sequence[str], **how: Any) -> list[Translated]: ...
    def translate(
        self, texts: str | Sequence[str], *, split: bool | None = None, workers: int | None = None, **how: Any
    ) -> Translated | list[Translated]:
        """Translate a line of text, or each of several; `how` are the fields of Search: beam=5, sampling=True ...

        A line of several sentences is translated sentence by sentence, unless `split` is False: most models have only
        seen single ones, and leave out what comes after the first. One that has learned from whole lines reads them so.
        """
        split = not self.about.get("whole_lines") if split is None else split
        check_keys(Search, how, "search")
        lines = [normalise(text) for text in ([texts] if isinstance(texts, str) else texts)]
        sentences = [split_sentences(line) if split else [line] * bool(line) for line in lines]
        pieces = [
            [piece for sentence in several for piece in split_to_fit(sentence, self.fits)] for several in sentences
        ]
        sources = self.sources([piece.strip() for parts in pieces for piece in parts])
        limits = self.limits(sources)
        rows = [(line, part) for line, parts in enumerate(pieces) for part in range(len(parts))]
        found = iter(self.search(sources, limits, Search(**how), rows=rows, workers=workers))
        every = zip(sentences, pieces, strict=True)
        done = [self.join(len(several), [next(found) for _ in parts]) for several, parts in every]
        return done[0] if isinstance(texts, str) else done

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text as the model reads it, but for its end: behind the mark of the language to write."""
        mark = self.tokenizer.mark(self.about.get("target", ""))
        return [[*mark, *ids] for ids in self.tokenizer.encode_batch(texts)]

    def fits(self, text: str) -> bool:
        return len(self.sources([text.strip()])[0]) <= self.longest

    def join(self, sentences: int, found: list[Searched]) -> Translated:
        """The pieces of one line as one translation; alternative i is made of alternative i of each piece."""
        if not found:
            return Translated("", 0.0, [Scored("", 0.0)])
        gap = "" if is_unspaced(self.about.get("target", "")) else " "
        ranks = min(len(piece.hypotheses) for piece in found)
        ranked = []
        for rank in range(ranks):
            chosen = [piece.hypotheses[rank] for piece in found]
            texts = self.tokenizer.decode_batch([hypothesis.tokens for hypothesis in chosen])
            # A model may write a newline, byte by byte; a line in is still one line out.
            ranked.append(Scored(normalise(gap.join(texts)), sum(h.score for h in chosen) / len(chosen)))
        first = [piece.hypotheses[0] for piece in found]
        looped, cut = any(piece.looped for piece in found), not all(hypothesis.ended for hypothesis in first)
        return Translated(ranked[0].text, ranked[0].score, ranked, sentences, len(found), looped, cut)


def longest_targets(sources: list[list[int]], max_length: int) -> list[int]:
    """How many tokens each translation may have, the end included."""
    return [min(len(ids) + MORE, max_length - 1) for ids in sources]
