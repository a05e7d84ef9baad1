"""Links between entities: head, relation and tail out of tables, or of texts in which people have marked names."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from qkv.text.examples import Link, Text
from qkv.text.records import read_fields
from qkv.text.units import BREAK

IN_SENTENCE, IN_DOCUMENT = "sentence", "document"  # the relations of names that stand near each other
LINK_FIELDS = {
    "head": ["head", "subject", "h"], "relation": ["relation", "predicate", "r"], "tail": ["tail", "object", "t"],
}  # fmt: skip


def read_link_records(path: Path) -> Iterator[Link]:
    """A first line may name the columns of a table; without one, each line has three cells: head, relation, tail."""
    line = "a head, a relation and a tail with {} between them"
    for place, (head, relation, tail) in read_fields(path, LINK_FIELDS, line):
        yield Link(head, relation, tail, place)


def spelled(piece: Text) -> list[str]:
    """The names that stand in a text, in their order, each with single spaces."""
    return [" ".join(piece.text[start:end].split()) for start, end in piece.names]


def links_of(pieces: Iterable[Text], near: int) -> Iterator[Link]:
    """Each name of a text with the next `near` ones behind it: in one sentence, or just in one document."""
    for piece in pieces:
        names = spelled(piece)
        for i, head in enumerate(names):
            for j in range(i + 1, min(i + 1 + near, len(names))):
                between = piece.text[piece.names[i][1] : piece.names[j][0]]
                if head != names[j]:
                    relation = IN_DOCUMENT if BREAK in between else IN_SENTENCE
                    yield Link(head, relation, names[j], f"{piece.place}, names {i + 1} and {j + 1}")
