"""Words with a tag each: names in running text (BIO), parts of speech."""

from collections.abc import Iterator
from pathlib import Path

from qkv.errors import InputError
from qkv.text.conllu import read_conllu
from qkv.text.examples import Tagged
from qkv.text.lines import read_lines


def read_conll(path: Path) -> Iterator[Tagged]:
    """A word on each line, the first of its columns, and its tag, the last; tabs or spaces between them. A blank line
    ends a sentence; lines of -DOCSTART- are left out.

    Tags of the forms B-type, I-type and O mark phrases. An I- that goes on with no phrase of its type begins one and is
    read as B-: that is how CoNLL-2003 writes them.
    """
    words, tags, place = list[str](), list[str](), ""
    for number, line in enumerate(read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if not any(cells) or cells[0] == "-DOCSTART-":
            if words:
                yield Tagged(words, tags, place)
            words, tags = [], []
            continue
        word, tag = cells[0], cells[-1]
        if len(cells) < 2 or not word or tag in ("", "B-", "I-"):
            raise InputError(
                f"{path} line {number} is {line[:40]!r} where a word and its tag were expected; write both, with a tab "
                "between them, and a blank line between sentences"
            )
        place = place if words else f"{path} line {number}"
        if tag.startswith("I-") and (not tags or tags[-1] not in (tag, f"B-{tag[2:]}")):
            tag = f"B-{tag[2:]}"
        words.append(word)
        tags.append(tag)
    if words:
        yield Tagged(words, tags, place)


def read_parts_of_speech(path: Path) -> Iterator[Tagged]:
    """The words of a CoNLL-U file with their universal parts of speech (column UPOS)."""
    return (Tagged(sentence.words, sentence.tags, sentence.place) for sentence in read_conllu(path))
