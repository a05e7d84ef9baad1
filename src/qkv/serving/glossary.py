"""A glossary: terms that a translation must use, put in the place where the model's own word stood."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qkv.decoding import Translated
from qkv.decoding.alignment import Links
from qkv.decoding.translator import Scored
from qkv.errors import InputError
from qkv.serving.alignment import replace_aligned
from qkv.serving.metrics import Metrics
from qkv.serving.models import Models
from qkv.serving.queue import Queued
from qkv.text import read_pairs
from qkv.text.language import is_unspaced
from qkv.text.normalise import normalise

WORDS = re.compile(r"\w+|[^\w\s]")
CHARACTERS = re.compile(r"\S")  # where no spaces part the words, every character may begin one


@dataclass(frozen=True)
class Term:
    """A source term where it stands in a sentence, and the target term that it asks for."""

    start: int
    end: int
    source: str
    target: str


class Glossary:
    """Source term -> target term, for one pair of languages; any case, whole words."""

    def __init__(self, terms: Mapping[str, str], source: str = "") -> None:
        self.pieces = CHARACTERS if is_unspaced(source) else WORDS
        self.terms = {tuple(self.pieces.findall(term.casefold())): target for term, target in terms.items()}
        self.longest = max(map(len, self.terms), default=0)

    @classmethod
    def read(cls, path: Path, source: str, target: str) -> "Glossary":
        """Any file of pairs that `qkv train` reads: two columns without a heading, or named by their languages."""
        pairs = [
            (normalise(pair.source), normalise(pair.target))
            for pair in read_pairs([path], source=source, target=target)
        ]
        terms = {term: wanted for term, wanted in pairs if term and wanted}
        if not terms:
            raise InputError(f"{path} has no terms; write a source term and a target term on each line")
        return cls(terms, source)

    def find(self, text: str) -> list[Term]:
        """The terms in a sentence, from left to right, the longest that begins at each word."""
        words = list(self.pieces.finditer(text))
        found: list[Term] = []
        at = 0
        while at < len(words):
            for count in range(min(self.longest, len(words) - at), 0, -1):
                target = self.terms.get(tuple(word[0].casefold() for word in words[at : at + count]))
                if target is not None:
                    start, end = words[at].start(), words[at + count - 1].end()
                    found.append(Term(start, end, text[start:end], target))
                    break
            else:
                count = 1
            at += count
        return found


def read_glossaries(path: Path, models: Models) -> dict[str, Glossary]:
    """By the model's name; a file that names its languages is for the models of those, and must be for one at least."""
    found: dict[str, Glossary] = {}
    for served in models.served:
        try:
            found[served.name] = Glossary.read(path, served.source, served.target)
        except InputError:
            if served is models.served[-1] and not found:
                raise
    return found


def count_of(term: str, text: str) -> int:
    """How often a term stands in a text as whole words; as any characters, where words have no spaces."""
    edge = r"" if re.search(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]", term) else r"\b"
    first, last = (edge if re.match(r"\w", character) else "" for character in (term[0], term[-1]))
    return len(re.findall(f"{first}{re.escape(term)}{last}", text, re.IGNORECASE))


class Glossed:
    """A queued translator that keeps to a glossary.

    Where the model's own translation has not the term, the words that the decoder wrote while it attended to the source
    term make way for it. Differs from a placeholder in the source: a small model copies few of those (see docs), and a
    strange word in the source spoils the words around it.
    """

    def __init__(self, queued: Queued, glossary: Glossary | None, metrics: Metrics) -> None:
        self.queued, self.metrics = queued, metrics
        self.about, self.tokenizer, self.longest = queued.about, queued.tokenizer, queued.longest
        self.glossary = glossary
        self.asked: list[tuple[Term, bool]] = []  # each term that was met, and whether it was used

    def align(self, pairs: list[tuple[str, str]]) -> list[Links]:
        return self.queued.align(pairs)

    def fits(self, text: str) -> bool:
        return self.queued.fits(text)

    def translate(self, texts: str | Sequence[str], **how: Any) -> list[Translated]:
        lines = [normalise(text) for text in ([texts] if isinstance(texts, str) else texts)]
        found = self.queued.translate(lines, **how)
        if self.glossary is None:
            return found
        met = {i: terms for i, line in enumerate(lines) if (terms := self.glossary.find(line))}
        wanting = {i: missing for i, terms in met.items() if (missing := absent(terms, found[i].text))}
        if wanting:
            texts_now = self.queued.run(lambda: [self.put_in(lines[i], found[i].text, m) for i, m in wanting.items()])
            for i, text in zip(wanting, texts_now, strict=True):
                first, *rest = found[i].alternatives
                found[i] = replace(found[i], text=text, alternatives=[Scored(text, first.score), *rest])
        for i, terms in met.items():
            lost = absent(terms, found[i].text)
            for term in terms:
                self.asked.append((term, term not in lost))
                self.metrics.terms.labels("no" if term in lost else "yes").inc()
        return found

    def put_in(self, source: str, translation: str, missing: list[Term]) -> str:
        places = [((term.start, term.end), term.target) for term in missing]
        return replace_aligned(self.queued.translator, source, translation, places)


def absent(terms: list[Term], text: str) -> list[Term]:
    """The terms whose target does not stand in the text as often as their source stood in the sentence."""
    lost = []
    for target in dict.fromkeys(term.target for term in terms):
        same = [term for term in terms if term.target == target]
        if count_of(target, text) < len(same):
            lost += same
    return sorted(lost, key=lambda term: term.start)
