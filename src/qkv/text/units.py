"""Texts with their phrases and names: noun phrases and proper nouns of gold trees, names that tags mark.

Sun et al. 2019 (ERNIE 1.0), section 3.2, hide these as a whole. The paper finds them with taggers of its own; here
people have marked them.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from qkv.text.conllu import Sentence, read_conll, read_conllu
from qkv.text.examples import Text

PIECE = 1 << 16  # characters after which a document goes on in another text
BREAK = "\n\n"  # between sentences: text.sentences cuts there
NOUNS = ("NOUN", "PROPN")
# Universal Dependencies: what stands with a noun in one phrase. Not the preposition before it (case), nor what follows.
MODIFIERS = ("det", "amod", "nummod", "compound", "nmod:poss", "flat", "det:predet", "nmod:desc")

Range = tuple[int, int]  # words from, to (which is no longer in it)


class Marked(NamedTuple):
    """A sentence with its phrases and names, and whether a document begins with it."""

    words: Sequence[str]
    phrases: Sequence[Range]
    names: Sequence[Range]
    text: str
    place: str
    begins: bool


def read_treebank_texts(path: Path, documents: str, field: str) -> Iterator[Text]:
    """The documents of a CoNLL-U file, which lines "# newdoc" begin; without them it is one. A phrase is a noun with
    its modifiers, a name a run of proper nouns."""
    return _texts(
        Marked(
            sentence.words, noun_phrases(sentence), runs([tag == "PROPN" for tag in sentence.tags]),
            sentence.comments.get("text", ""), sentence.place, not sentence.comments.keys().isdisjoint(NEW),
        )
        for sentence in read_conllu(path)
    )  # fmt: skip


NEW = ("newdoc", "newdoc id")


def read_named_texts(path: Path, documents: str, field: str) -> Iterator[Text]:
    """A CoNLL file, words with tags B-type, I-type and O, as one document: what is tagged is a name, and a phrase."""
    for_each = ((one, tagged(one.tags)) for one in read_conll(path))
    return _texts(Marked(one.words, names, names, "", one.place, False) for one, names in for_each)


def noun_phrases(sentence: Sentence) -> list[Range]:
    """Nouns with the modifiers that stand beside them without a gap; of one phrase in another, the larger."""
    n = len(sentence.words)
    found = list[Range]()
    for noun in range(n):
        if sentence.tags[noun] in NOUNS:
            start, end = noun, noun + 1
            while start > 0 and _modifies(sentence, start - 1, noun):
                start -= 1
            while end < n and _modifies(sentence, end, noun):
                end += 1
            found.append((start, end))
    outer = [one for one in found if not any(a <= one[0] and one[1] <= b and (a, b) != one for a, b in found)]
    return sorted(set(outer))


def _modifies(sentence: Sentence, word: int, noun: int) -> bool:
    """Whether the path from a word to the noun ends in a relation of MODIFIERS; a path in a circle does not."""
    for _ in sentence.words:
        head = sentence.heads[word] - 1
        if head == noun:
            return sentence.relations[word] in MODIFIERS
        if not 0 <= head < len(sentence.words):
            return False
        word = head
    return False


def runs(inside: Sequence[bool]) -> list[Range]:
    """The longest rows of words that are all inside."""
    edges = [i for i in range(len(inside) + 1) if (i > 0 and inside[i - 1]) != (i < len(inside) and inside[i])]
    return list(zip(edges[::2], edges[1::2], strict=True))


def tagged(tags: Sequence[str]) -> list[Range]:
    """The words from each B- up to the last I- behind it."""
    found = list[Range]()
    for i, tag in enumerate(tags):
        if tag.startswith("B-"):
            found.append((i, i + 1))
        elif tag.startswith("I-") and found and found[-1][1] == i:
            found[-1] = found[-1][0], i + 1
    return found


def _texts(sentences: Iterable[Marked]) -> Iterator[Text]:
    """Sentences joined to documents, a long one in several pieces."""
    held, place, begins = Text("", "", True), "", True
    for one in sentences:
        if held.text and (one.begins or len(held.text) > PIECE):
            yield held._replace(place=place, begins=begins)
            held, begins = Text("", "", True), one.begins
        place = place if held.text else one.place
        text, spans = located(one)
        at = len(held.text) + len(BREAK) * bool(held.text)
        phrases, names = (
            [*before, *([at + spans[a][0], at + spans[b - 1][1]] for a, b in new)]
            for before, new in ((held.phrases, one.phrases), (held.names, one.names))
        )
        held = Text(held.text + BREAK * bool(held.text) + text, place, begins, phrases, names)
    if held.text:
        yield held


def located(one: Marked) -> tuple[str, list[Range]]:
    """A sentence as it is written, and where each word stands in it; if it is not known, words with spaces between."""
    spans, at = list[Range](), 0
    for word in one.words:
        start = one.text.find(word, at)
        if start < 0 or one.text[at:start].strip():
            ends = [sum(map(len, one.words[: i + 1])) + i for i in range(len(one.words))]
            return " ".join(one.words), [(end - len(w), end) for end, w in zip(ends, one.words, strict=True)]
        spans.append((start, start + len(word)))
        at = start + len(word)
    return one.text, spans
