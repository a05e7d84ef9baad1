"""Texts with a label, and pairs of texts with a label or a number, out of tables, JSON lines and treebanks."""

from collections.abc import Iterator
from pathlib import Path

from qkv.errors import InputError
from qkv.text.conllu import read_conll, read_conllu
from qkv.text.examples import Labelled, LabelledPair
from qkv.text.records import read_fields
from qkv.text.sentences import split_sentences
from qkv.text.units import tagged

BORDER = "|||"  # between sentences, where the data itself marks them
MENTION = "<ent>"  # around a name whose type is asked for (Zhang et al. 2019, section 3.5: [ENT])
BREAK = "<br>"  # a line break that web pages leave in text

LABELLED_FIELDS = {"label": ["label"], "text": ["text", "sentence"]}
LABELLED_PAIR_FIELDS = {  # as GLUE's tasks and SNLI name them
    "first text": ["sentence1", "premise", "question1", "question", "#1 string", "first"],
    "second text": ["sentence2", "hypothesis", "question2", "sentence", "#2 string", "second"],
    "label": ["label", "gold_label", "score", "quality", "is_duplicate"],
}


def sentences(text: str) -> list[str]:
    """The sentences of a text: as it marks them itself with |||, or else by their ends and line breaks."""
    parts = text.split(BORDER) if BORDER in text else split_sentences(text.replace(BREAK, "\n\n"))
    return [part.strip() for part in parts if part.strip()]


def read_labelled_records(path: Path) -> Iterator[Labelled]:
    """A first line with the cells `label` and `text` names the columns of a table; without one, each line has two, the
    label and the text, or the four of GLUE's CoLA."""
    for place, (label, text) in read_fields(path, LABELLED_FIELDS, "a label, {} and a text", cola):
        if not sentences(text):
            raise InputError(f"{place} has no text; give each line a label and a text")
        yield Labelled(label, text, place)


def cola(cells: list[str]) -> list[int] | None:
    """Warstadt et al. 2019: source, 1 if acceptable or 0, the author's own mark (a star or nothing), sentence."""
    return [1, 3] if len(cells) == 4 and cells[1] in ("0", "1") and cells[2] in ("", "*") else None


def read_labelled_pair_records(path: Path) -> Iterator[LabelledPair]:
    """A first line may name the columns of a table; without one, each line has three cells: two texts and a label."""
    line = "two texts and a label with {} between them"
    for place, (first, second, label) in read_fields(path, LABELLED_PAIR_FIELDS, line):
        yield LabelledPair(first, second, label, place)


def read_treebank(path: Path) -> Iterator[Labelled]:
    """The documents of a CoNLL-U file, as the English Web Treebank marks them: a line "# newdoc id = genre-name" begins
    each, and its genre is the label. Sentences are the treebank's own, each with the mark behind it, which tells a
    single one from an unmarked text."""
    label, place, texts = "", "", list[str]()
    for sentence in read_conllu(path):
        name = sentence.comments.get("newdoc id")
        if name is None and not label:
            raise InputError(f"{sentence.place} is of no document; begin each with a line # newdoc id = label-name")
        if name is not None:
            if texts:
                yield Labelled(label, " ".join(texts), place)
            label, place, texts = name.partition("-")[0] if "-" in name else "", sentence.place, []
            if not label:
                raise InputError(f"{place} begins the document {name!r}, which has no label; name it label-name")
        texts.append(f"{sentence.comments.get('text') or ' '.join(sentence.words)} {BORDER}")
    if texts:
        yield Labelled(label, " ".join(texts), place)


def read_names(path: Path) -> Iterator[Labelled]:
    """Entity typing: each name of a CoNLL file, which tags B-type and I-type mark, in its sentence and between marks;
    its type is the label."""
    for one in read_conll(path):
        for number, (start, end) in enumerate(tagged(one.tags), start=1):
            words = [*one.words[:start], MENTION, *one.words[start:end], MENTION, *one.words[end:]]
            yield Labelled(one.tags[start][2:], " ".join(words), f"{one.place}, name {number}")
