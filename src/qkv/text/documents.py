"""Documents with a label, out of tab-separated files or treebanks; and the sentences of a document."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qkv.errors import InputError
from qkv.text.conllu import read_conllu
from qkv.text.lines import read_lines
from qkv.text.sentences import split_sentences

BORDER = "|||"  # between sentences, where the data itself marks them
BREAK = "<br>"  # a line break that web pages leave in text


@dataclass(frozen=True)
class Document:
    """A text with its class, and where it stands."""

    label: str
    text: str
    where: str

    @property
    def sentences(self) -> list[str]:
        return sentences(self.text)


def sentences(text: str) -> list[str]:
    """The sentences of a text: as it marks them itself with |||, or else by their ends and line breaks."""
    parts = text.split(BORDER) if BORDER in text else split_sentences(text.replace(BREAK, "\n\n"))
    return [part.strip() for part in parts if part.strip()]


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of a file, by the end of its name (see DOCUMENTS), which may be followed by .gz."""
    name = path.name.lower().removesuffix(".gz")
    return DOCUMENTS.get(Path(name).suffix, read_table)(path)


def read_table(path: Path) -> Iterator[Document]:
    """Documents on lines. A first line with the cells `label` and `text` names the columns; without one, each line
    has two cells, the label and the text."""
    label, text, width = 0, 1, 2
    for number, line in enumerate(read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if number == 1 and {"label", "text"} <= set(cells):
            label, text, width = cells.index("label"), cells.index("text"), len(cells)
            continue
        if not any(cells):
            continue
        if len(cells) != width:
            raise InputError(
                f"{path} line {number} has {len(cells)} cells where {width} were expected; give each line a label, "
                "a tab and a text, or name the columns in the first line (label and text among them)"
            )
        if not cells[label] or not sentences(cells[text]):
            what = "text" if cells[label] else "label"
            raise InputError(f"{path} line {number} has no {what}; give each line a label, a tab and a text")
        yield Document(cells[label], cells[text], f"{path} line {number}")


def read_treebank(path: Path) -> Iterator[Document]:
    """The documents of a CoNLL-U file, as the English Web Treebank marks them: a line "# newdoc id = genre-name" begins
    each, and its genre is the label. Sentences are the treebank's own."""
    label, where, texts = "", "", list[str]()
    for sentence in read_conllu(path):
        name = sentence.comments.get("newdoc id")
        if name is None and not label:
            raise InputError(f"{sentence.place} is of no document; begin each with a line # newdoc id = label-name")
        if name is not None:
            if texts:
                yield Document(label, marked(texts), where)
            label, where, texts = name.partition("-")[0] if "-" in name else "", sentence.place, []
            if not label:
                raise InputError(f"{where} begins the document {name!r}, which has no label; name it label-name")
        texts.append(sentence.comments.get("text") or " ".join(sentence.words))
    if texts:
        yield Document(label, marked(texts), where)


def marked(texts: list[str]) -> str:
    """Sentences as one text that marks them itself; the mark at the end tells one sentence from an unmarked text."""
    return "".join(f"{text} {BORDER} " for text in texts).rstrip()


# By the end of a file's name; any other file is tab-separated.
DOCUMENTS: dict[str, Callable[[Path], Iterator[Document]]] = {".conllu": read_treebank}
