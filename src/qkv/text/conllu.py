"""CoNLL-U: sentences with their dependency trees, one word on each line."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qkv.errors import InputError
from qkv.text.lines import read_lines

COLUMNS = 10


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and for each the number of its head: words count from 1, 0 is the root."""

    words: list[str]
    heads: list[int]
    place: str  # file and line of its first word
    comments: dict[str, str] = field(default_factory=dict)  # of the lines "# key = value" that stand before it
    tags: list[str] = field(default_factory=list)  # universal parts of speech


def read_conllu(path: Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file: columns FORM, UPOS and HEAD of the lines whose ID is a plain number.

    Lines of joined words ("3-4 don't") and of empty nodes ("8.1") are no words of the basic tree and are left out.
    Whether the heads make a tree is for positions.tree to say.
    """
    lines: list[tuple[int, str]] = []
    comments: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            comments[key.strip()] = value.strip()
        elif line.strip():
            lines.append((number, line))
        elif lines:
            yield _sentence(path, lines, comments)
            lines, comments = [], {}
    if lines:
        yield _sentence(path, lines, comments)


def _sentence(path: Path, lines: list[tuple[int, str]], comments: dict[str, str]) -> Sentence:
    words, heads, tags = list[str](), list[int](), list[str]()
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != COLUMNS:
            raise InputError(
                f"{path} line {number} has {len(cells)} of the {COLUMNS} tab-separated columns of CoNLL-U; "
                "give a file in that format"
            )
        if "-" in cells[0] or "." in cells[0]:
            continue
        if cells[0] != str(len(words) + 1):
            raise InputError(f"{path} line {number} is word {cells[0]!r} where {len(words) + 1} was expected; number "
                             "the words of each sentence from 1, and end each sentence with an empty line")  # fmt: skip
        if not (cells[6].isascii() and cells[6].isdigit()):
            raise InputError(f"{path} line {number} has {cells[6]!r} as its head (column 7) where the number of a word "
                             "was expected; give a file with trees")  # fmt: skip
        words.append(cells[1])
        heads.append(int(cells[6]))
        tags.append(cells[3])
    place = f"{path} line {lines[0][0]}"
    if not words:
        raise InputError(f"{place} begins a sentence that has no words; give each sentence at least one")
    return Sentence(words, heads, place, comments, tags)
