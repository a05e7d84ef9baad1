"""Documents with a label: tab-separated files, label and text on each line; and the sentences of a document."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qkv.errors import InputError
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
    """The documents of a file. A first line with the cells `label` and `text` names the columns; without one, each line
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
