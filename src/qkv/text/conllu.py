"""CoNLL-U, sentences with their dependency trees, and CoNLL, words with a tag each: names, parts of speech."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from qkv.errors import InputError
from qkv.text.examples import Tagged
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
    relations: list[str] = field(default_factory=list)  # of each word to its head


def read_conllu(path: Path) -> Iterator[Sentence]:
    """The sentences of a CoNLL-U file: columns FORM, UPOS, HEAD and DEPREL of the lines whose ID is a plain number.

    Lines of joined words ("3-4 don't") and of empty nodes ("8.1") are no words of the basic tree and are left out.
    Whether the heads make a tree is for positions.tree to say.
    """
    comments: dict[str, str] = {}
    for lines in _blocks(path):
        said = [line[1:].partition("=") for _, line in lines if line.startswith("#")]
        comments |= {key.strip(): value.strip() for key, _, value in said}
        if words := [(number, line) for number, line in lines if not line.startswith("#")]:
            yield _sentence(path, words, comments)
            comments = {}


def _blocks(path: Path) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence with their numbers: those between blank lines and marks of documents."""

    def is_border(line: tuple[int, str]) -> bool:
        return not line[1].strip() or ("-DOCSTART-" in line[1] and line[1].split()[0] == "-DOCSTART-")

    numbered = enumerate(read_lines(path), start=1)
    return (list(lines) for ends, lines in groupby(numbered, is_border) if not ends)


def _sentence(path: Path, lines: list[tuple[int, str]], comments: dict[str, str]) -> Sentence:
    words, heads, tags, relations = list[str](), list[int](), list[str](), list[str]()
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != COLUMNS:
            raise InputError(f"{path} line {number} has {len(cells)} of the {COLUMNS} tab-separated columns of CoNLL-U"
                             "; give a file in that format")  # fmt: skip
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
        relations.append(cells[7])
    place = f"{path} line {lines[0][0]}"
    if not words:
        raise InputError(f"{place} begins a sentence that has no words; give each sentence at least one")
    return Sentence(words, heads, place, comments, tags, relations)


def read_parts_of_speech(path: Path) -> Iterator[Tagged]:
    """The words of a CoNLL-U file with their universal parts of speech (column UPOS)."""
    return (Tagged(sentence.words, sentence.tags, sentence.place) for sentence in read_conllu(path))


def read_conll(path: Path) -> Iterator[Tagged]:
    """A word on each line, the first of its columns, and its tag, the last; tabs or spaces between them. A blank line
    ends a sentence; lines of -DOCSTART- are left out.

    Tags of the forms B-type, I-type and O mark phrases. An I- that goes on with no phrase of its type begins one and is
    read as B-: that is how CoNLL-2003 writes them.
    """
    for lines in _blocks(path):
        words, tags = list[str](), list[str]()
        for number, line in lines:
            cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
            word, tag = cells[0], cells[-1]
            if len(cells) < 2 or not word or tag in ("", "B-", "I-"):
                raise InputError(
                    f"{path} line {number} is {line[:40]!r} where a word and its tag were expected; write both, with a "
                    "tab between them, and a blank line between sentences"
                )
            if tag.startswith("I-") and (not tags or tags[-1] not in (tag, f"B-{tag[2:]}")):
                tag = f"B-{tag[2:]}"
            words.append(word)
            tags.append(tag)
        yield Tagged(words, tags, f"{path} line {lines[0][0]}")
