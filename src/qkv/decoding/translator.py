"""A translator: a model folder, loaded, with text in and text out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast, overload

from qkv.config import check_keys
from qkv.decoding.engine import Search, Searching
from qkv.decoding.searcher import Opened, Searched
from qkv.errors import InputError
from qkv.folder import splits
from qkv.text.language import is_unspaced
from qkv.text.normalise import normalise
from qkv.text.sentences import split_sentences, split_to_fit
from qkv.text.several import several

if TYPE_CHECKING:
    from qkv.documents import FileReport
    from qkv.evaluation import Scores

LONGEST = 200_000  # characters of a text
Links = list[tuple[int, int]]  # (source word, target word), counted from 0
MORE = 50  # tokens that a translation may have more than its source (Vaswani et al. 2017, section 6.1)


class Scored(NamedTuple):
    """A text and its score: log p, divided by the length penalty; 0 is certain, lower is less so."""

    text: str
    score: float


@dataclass(frozen=True)
class Translated:
    """One text, translated: as many lines as it had.

    >>> line = translator.translate("Two dogs.", n_best=3)
    >>> print(line.text, line.score, [other.text for other in line.alternatives], line.remarks())
    """

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
    """What `qkv.load` gives for a translator; a text's translation is the same whatever else is in the batch.

    >>> translator = qkv.load("model")
    >>> translator.translate("Two dogs play in the snow.").text
    >>> translator.translate_file("messages.po", "messages.de.po")
    >>> translator.score("test.en", "test.de").bleu
    >>> translator.align("Two dogs play.", "Zwei Hunde spielen.")  # [(0, 0), (1, 1), (2, 2)]
    """

    catches_loops = True

    @property
    def longest(self) -> int:
        """The tokens of the longest sentence that the model has learned from and can read."""
        return min(self.about.get("longest_source", 10**9), self.loaded.longest_source)

    def limits(self, sources: list[list[int]]) -> list[int]:
        """How many tokens each translation may have, the end included."""
        return [min(len(ids) + MORE, self.loaded.room(len(ids))) for ids in sources]

    def ranked(self, how: Search) -> Search:
        """`how` with the length penalty of the program that the model is from."""
        return replace(how, constant=self.about["penalty"]) if "penalty" in self.about else how

    def search(self, sources: list[list[int]], limits: list[int], how: Search, **more: Any) -> list[Searched]:
        return super().search(sources, limits, self.ranked(how), **more)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, split: bool | None = ..., first: int = ..., **how: Unpack[Searching]
    ) -> Translated: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, split: bool | None = ..., first: int = ..., **how: Unpack[Searching]
    ) -> list[Translated]: ...
    def translate(
        self, texts: str | Iterable[str], *, split: bool | None = None, first: int = 0, **how: Unpack[Searching]
    ) -> Translated | list[Translated]:
        """Translate a text, or each of several, line by line; `how` are the fields of Search: beam=5, sampling=True ...

        >>> translator.translate(["Two dogs.", "A cat."], beam=5, n_best=3)[0].alternatives

        A line of several sentences is translated sentence by sentence, unless `split` is False: most models have only
        seen single ones, and leave out what comes after the first. One that has learned from whole lines reads them so.
        White space at the ends of a text and of its lines goes. What is drawn for a text follows from its number: the
        place in `texts`, of which `first` others stand before them.
        """
        split = splits(self.about) if split is None else split
        check_keys(Search, how, "search")
        every = several(texts)
        for text in every:
            if len(text) > LONGEST:
                raise InputError(
                    f"the text that begins {text[:30]!r} has {len(text):,} characters, and at most {LONGEST:,} are "
                    "translated as one; put line ends between its paragraphs"
                )
        lines = [[normalise(line) for line in text.strip().split("\n")] for text in every]
        sentences = [[split_sentences(line) if split else [line] * bool(line) for line in text] for text in lines]
        pieces = [[list(self.pieces(line)) for line in text] for text in sentences]
        sources = self.sources([piece for text in pieces for line in text for piece in line])
        limits = self.limits(sources)
        rows = [(number, part) for number, text in enumerate(pieces, first) for part in range(sum(map(len, text)))]
        found = iter(self.search(sources, limits, Search(**how), rows=rows))
        counts = [sum(map(len, text)) for text in sentences]
        every_one = zip(counts, pieces, strict=True)
        done = [self.join(count, [[next(found) for _ in line] for line in text]) for count, text in every_one]
        return done[0] if isinstance(texts, str) else done

    def translate_file(
        self, source: str | Path, target: str | Path, *, memory: Sequence[str | Path] = (), final: bool = False,
        protect: Sequence[str] = (), split: bool | None = None, **how: Unpack[Searching],
    ) -> "FileReport":  # fmt: skip
        """Translate a file into another of the same format, of which only the language changes.

        >>> print(translator.translate_file("messages.po", "messages.de.po"))  # 12 segments translated, 3 kept

        `memory` are files of pairs whose translations are used where a text stands in them word for word; what matches
        a regular expression of `protect` comes back as it is; `final` leaves out the marks of a machine's translation.
        """
        from qkv.documents import compiled, has_lines, translate_file, translate_lines

        path, rest = Path(source), cast(dict[str, Any], how if split is None else {**how, "split": split})
        is_plain = has_lines(path, self.about.get("source", ""))
        if is_plain and not protect and not memory:
            return translate_lines(self, path, Path(target), **rest)
        name = f"{path.name}.txt" if is_plain else path.name
        return translate_file(
            self, path, Path(target), name=name, protect=compiled(protect), memory=[*map(Path, memory)], final=final,
            **rest,
        )  # fmt: skip

    def score(
        self, *files: str | Path, pairs: Iterable[tuple[str, str]] = (), lowercase: bool = False,
        as_paper: bool = False, confidence: bool = False, split: bool | None = None, **how: Unpack[Searching],
    ) -> "Scores":  # fmt: skip
        """BLEU and chrF, with their signatures, of the translations of some pairs' sources beside their targets.

        >>> translator.score("test.en", "test.de").bleu
        >>> translator.score(pairs=[("Two dogs.", "Zwei Hunde."), ...], beam=1).chrf
        """
        from qkv.evaluation import score
        from qkv.text import read_pairs

        source, target = self.about.get("source") or None, self.about.get("target") or None
        read = read_pairs([*map(Path, files)], source=source, target=target) if files else ()
        both = [*((one.source, one.target) for one in read), *pairs]
        if not both:
            raise InputError("there is nothing to score; give a source and a target file, or pairs=[(source, target)]")
        sources, references = zip(*both, strict=True)
        texts = [line.text for line in self.translate(sources, split=split, **how)]
        return score(
            texts, references, target_language=target or "", lowercase=lowercase, as_paper=as_paper,
            confidence=confidence,
        )  # fmt: skip

    @overload
    def align(  # type: ignore[overload-overlap]
        self, source: str, target: str, *, layer: int | None = ..., threshold: float = ...
    ) -> Links: ...
    @overload
    def align(
        self, source: Iterable[str], target: Iterable[str], *, layer: int | None = ..., threshold: float = ...
    ) -> list[Links]: ...
    def align(
        self, source: str | Iterable[str], target: str | Iterable[str],
        *, layer: int | None = None, threshold: float = 0.0,
    ) -> Links | list[Links]:  # fmt: skip
        """Which word of a source its translation's words came from, counted from 0; of lists, a list.

        >>> translator.align("Two dogs play.", "Zwei Hunde spielen.")  # [(0, 0), (1, 1), (2, 2)]

        A target word is left out if less than `threshold` of its attention goes to any one source word. `layer` is the
        decoder's, from 1, that is read; unless given, the one that `qkv align --tune` has chosen.
        """
        from qkv.decoding.alignment import align

        sources, targets = several(source), several(target)
        if len(sources) != len(targets) or isinstance(source, str) != isinstance(target, str):
            raise InputError(
                f"{len(sources)} source and {len(targets)} target texts cannot be aligned; give one and one, or two "
                "lists of the same length"
            )
        found = align(self, [*zip(sources, targets, strict=True)], layer=layer, threshold=threshold)
        return found[0] if isinstance(source, str) else found

    def pieces(self, sentences: list[str]) -> Iterator[str]:
        """The sentences, those that are too long for the model in parts."""
        return (piece.strip() for sentence in sentences for piece in split_to_fit(sentence, self.fits))

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text as the model reads it, but for its end: behind the mark of the language to write."""
        mark = self.tokenizer.mark(self.about.get("target", ""))
        return [[*mark, *ids] for ids in self.tokenizer.encode_batch(texts)]

    def fits(self, text: str) -> bool:
        return len(self.sources([text.strip()])[0]) <= self.longest

    def join(self, sentences: int, lines: list[list[Searched]]) -> Translated:
        """The pieces of each line as one line; alternative i is made of alternative i of each piece."""
        found = [piece for line in lines for piece in line]
        if not found:
            return Translated(empty := "\n" * (len(lines) - 1), 0.0, [Scored(empty, 0.0)])
        gap = "" if is_unspaced(self.about.get("target", "")) else " "
        ranked = []
        for rank in range(min(len(piece.hypotheses) for piece in found)):
            # A model may write a newline, byte by byte; a line in is still one line out.
            texts = [normalise(gap.join(self.written(line, rank))) for line in lines]
            score = sum(piece.hypotheses[rank].score for piece in found) / len(found)
            ranked.append(Scored("\n".join(texts), score))
        first = [piece.hypotheses[0] for piece in found]
        looped, cut = any(piece.looped for piece in found), not all(hypothesis.ended for hypothesis in first)
        return Translated(ranked[0].text, ranked[0].score, ranked, sentences, len(found), looped, cut)

    def written(self, line: list[Searched], rank: int) -> list[str]:
        return self.tokenizer.decode_batch([piece.hypotheses[rank].tokens for piece in line])


def longest_targets(sources: list[list[int]], max_length: int) -> list[int]:
    """How many tokens each translation may have, the end included."""
    return [min(len(ids) + MORE, max_length - 1) for ids in sources]
