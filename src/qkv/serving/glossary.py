"""A glossary: terms that a translation must use, put in the place where the model's own word stood."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qkv.decoding import Translated, Translator
from qkv.decoding.translator import Scored
from qkv.errors import InputError
from qkv.serving.models import Models
from qkv.serving.queued import QueuedTranslator
from qkv.text import read_pairs
from qkv.text.language import is_unspaced
from qkv.text.normalise import normalise

if TYPE_CHECKING:
    from qkv.decoding.alignment import Weights

Span = tuple[int, int]  # characters, from and up to
WORDS = re.compile(r"\w+|[^\w\s]")
CORE = re.compile(r"\w(?:.*\w)?")  # a word without the punctuation around it
CHARACTERS = re.compile(r"\S")  # where no spaces part the words, every character may begin one


class Term(NamedTuple):
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
        self.longest = max([1, *map(len, self.terms)])

    @classmethod
    def read(cls, path: Path, source: str, target: str) -> "Glossary":
        """Any file of pairs that `qkv train` reads: two columns without a heading, or named by their languages."""
        pairs = read_pairs([path], source=source, target=target)
        every = [(normalise(pair.source), normalise(pair.target)) for pair in pairs]
        terms = {term: wanted for term, wanted in every if term and wanted}
        if not terms:
            raise InputError(f"{path} has no terms; write a source term and a target term on each line")
        return cls(terms, source)

    def find(self, text: str) -> list[Term]:
        """The terms in a sentence, from left to right, the longest that begins at each word."""
        words, found, at = list(self.pieces.finditer(text)), list[Term](), 0
        while at < len(words):
            for count in range(min(self.longest, len(words) - at), 0, -1):
                target = self.terms.get(tuple(word[0].casefold() for word in words[at : at + count]))
                if target is not None:
                    start, end = words[at].start(), words[at + count - 1].end()
                    found.append(Term(start, end, text[start:end], target))
                    break
            at += count
        return found


def read_glossaries(path: Path, models: Models) -> dict[str, Glossary]:
    """By the model's name; a file that names its languages is for the models of those, and must be for one at least."""
    found: dict[str, Glossary] = {}
    if not models.translators:
        raise InputError(f"{path} is a glossary, which is for translations, but no model translates; leave it out")
    for served in models.translators:
        try:
            found[served.name] = Glossary.read(path, served.source, served.target)
        except InputError:
            if served is models.translators[-1] and not found:
                raise
    return found


def count_of(term: str, text: str) -> int:
    """How often a term stands in a text as whole words; as any characters, where words have no spaces."""
    edge = r"" if re.search(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]", term) else r"\b"
    first, last = (edge if re.match(r"\w", character) else "" for character in (term[0], term[-1]))
    return len(re.findall(f"{first}{re.escape(term)}{last}", text, re.IGNORECASE))


@dataclass
class Glossed(QueuedTranslator):
    """A queued translator that keeps to a glossary.

    Where the model's own translation has not the term, the words that the decoder wrote while it attended to the source
    term make way for it. Differs from a placeholder in the source: a small model copies few of those (see docs), and a
    strange word in the source spoils the words around it.
    """

    glossary: Glossary | None = None
    asked: list[tuple[Term, bool]] = field(default_factory=list)  # each term that was met, and whether it was used

    def translate(self, texts: Sequence[str], **how: Any) -> list[Translated]:
        lines = [normalise(text) for text in texts]
        found = super().translate(lines, **how)
        if self.glossary is None:
            return found
        met = {i: terms for i, line in enumerate(lines) if (terms := self.glossary.find(line))}
        wanting = {i: missing for i, terms in met.items() if (missing := absent(terms, found[i].text))}
        if wanting:
            own = self.model
            new = self.alone(lambda: [replace_aligned(own, lines[i], found[i].text, m) for i, m in wanting.items()])
            for i, text in zip(wanting, new, strict=True):
                first, *rest = found[i].alternatives
                found[i] = replace(found[i], text=text, alternatives=[Scored(text, first.score), *rest])
        for i, terms in met.items():
            lost = absent(terms, found[i].text)
            for term in terms:
                self.asked.append((term, term not in lost))
                self.queue.metrics.terms.labels("no" if term in lost else "yes").inc()
        return found


def absent(terms: list[Term], text: str) -> list[Term]:
    """The terms whose target does not stand in the text as often as their source stood in the sentence."""
    asked = Counter(term.target for term in terms)
    lost = {target for target, count in asked.items() if count_of(target, text) < count}
    return [term for term in terms if term.target in lost]


def replace_aligned(translator: Translator, source: str, translation: str, terms: Sequence[Term]) -> str:
    """The translation with the words of these terms of the source; as it was, where attention cannot be read."""
    from qkv.decoding.alignment import readout_of, word_attention, words_of

    sources, targets = words_of(translator, [source]), words_of(translator, [translation])
    try:
        (weights,) = word_attention(translator, sources, targets, readout_of(translator))  # (T, S) between words
    except InputError:  # too long for the model, or a model without attention
        return translation
    columns, rows = ([match.span() for match in re.finditer(r"\S+", text)] for text in (source, translation))
    free = [re.search(r"\w", translation[start:end]) is not None for start, end in rows]
    changes: dict[Span, str] = {}
    for term in terms:
        inside = [i for i, (start, end) in enumerate(columns) if start < term.end and term.start < end]
        if inside and any(free):
            first, last = run(weights, inside, free, [end - start for start, end in rows])
            free[first : last + 1] = [False] * (last + 1 - first)
            changes[rows[first][0], rows[last][1]] = term.target
    return rewritten(translation, changes)


def run(weights: "Weights", inside: list[int], free: list[bool], lengths: list[int]) -> tuple[int, int]:
    """The free word that looked most at the part, with the neighbours that looked nowhere more than there.

    Of more words than the part has, the longest: an article often looks at its noun, and stays.
    """
    looks = weights[:, inside].sum(axis=1).tolist()
    mostly = [ok and where in inside for ok, where in zip(free, weights.argmax(axis=1).tolist(), strict=True)]
    first = last = max(range(len(looks)), key=lambda i: looks[i] if free[i] else -1)
    while first > 0 and mostly[first - 1]:
        first -= 1
    while last + 1 < len(looks) and mostly[last + 1]:
        last += 1
    size = min(len(inside), last - first + 1)
    start = max(range(first, last - size + 2), key=lambda i: sum(lengths[i : i + size]))
    return start, start + size - 1


def rewritten(text: str, changes: dict[Span, str]) -> str:
    for (start, end), new in sorted(changes.items(), reverse=True):
        core = CORE.search(text, start, end)
        if core is None:
            continue
        if not start and core[0][0].isupper():  # it begins the sentence
            new = new[0].upper() + new[1:]
        text = text[: core.start()] + new + text[core.end() :]
    return text
