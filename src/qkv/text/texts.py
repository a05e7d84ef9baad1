"""Running text: documents out of plain files and JSON lines, to the letter, a long one in pieces."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from qkv.text.examples import Text
from qkv.text.lines import read_characters
from qkv.text.records import read_objects, texts_at

BORDERS = ("file", "blank_lines", "lines")  # what parts the documents of a plain file
PIECE = 1 << 16  # characters after which a document is cut at the next good place, or at any after twice as many


def read_plain_text(path: Path, documents: str, field: str) -> Iterator[Text]:
    """A file is one document, or blank lines part its documents, or each line is one. The line end and the blank lines
    between two documents are in neither."""
    parts = _parts(read_characters(path))
    return _pieces(path, parts if documents == "file" else _end_documents(parts, documents))


def read_json_texts(path: Path, documents: str, field: str) -> Iterator[Text]:
    """Each object has one document, under the key `field`, perhaps as a list of sentences; those without a word are
    left out."""
    shape = f'write {{"{field}": "..."}} on each line, or say which key holds the texts'
    for place, record in read_objects(path, shape):
        if (text := " ".join(texts_at(record, field, place, shape))).strip():
            yield from whole(text, place)


def whole(text: str, place: str) -> Iterator[Text]:
    """One document, in pieces if it is long."""
    return (piece._replace(place=place) for piece in _pieces(Path(), _parts([text])))


def _parts(blocks: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines of a text with their ends, and their numbers; a line that is longer than a piece comes in parts."""
    number, held = 1, ""
    for block in blocks:
        *lines, held = (held + block).split("\n")
        for line in lines:
            if len(line) < PIECE:
                yield number, line + "\n"
            else:
                yield from ((number, part) for part in _cut(line + "\n"))
            number += 1
        *parts, held = _cut(held)
        yield from ((number, part) for part in parts)
    if held:
        yield number, held


def _cut(line: str) -> Iterator[str]:
    """At most `PIECE` characters at once, cut before the space of a word if there is one."""
    while len(line) > PIECE:
        end = line.rfind(" ", 1, PIECE)
        while end > 0 and line[end + 1].isspace():
            end = line.rfind(" ", 1, end)
        end = end if end > 0 else PIECE
        yield line[:end]
        line = line[end:]
    yield line


def _end_documents(parts: Iterable[tuple[int, str]], documents: str) -> Iterator[tuple[int, str | None]]:
    """The parts without blank lines, and None where a document ends."""
    starts = True  # a line
    for number, part in parts:
        ends = part.endswith("\n")
        is_blank = starts and ends and not part.strip()
        if not is_blank:
            yield number, part
        if is_blank if documents == "blank_lines" else ends:
            yield number, None
        starts = ends
    yield 0, None


def _pieces(path: Path, parts: Iterable[tuple[int, str | None]]) -> Iterator[Text]:
    held: list[str] = []
    size, place, begins = 0, "", True
    for number, part in parts:
        is_full = size >= PIECE and part is not None and (size >= 2 * PIECE or _is_word_end(held[-1], part))
        if held and (part is None or is_full):
            text = "".join(held)
            if text.strip() or is_full:
                yield Text(text.removesuffix("\n") if part is None else text, place, begins)
            held, size, begins = [], 0, part is None
        if part is not None:
            place = place if held else f"{path} line {number}"
            held.append(part)
            size += len(part)
    if held:
        yield Text("".join(held), place, begins)


def _is_word_end(before: str, after: str) -> bool:
    """Whether GPT-2's pattern finds the same words in the two as in the whole. Of a run of white space, it takes the
    last one apart, or to the word behind it."""
    if after[0].isspace():
        return bool(after[1:2].strip())
    return before[-1] == "\n" and bool(before[-2:-1].strip())
