"""Records out of tables (.tsv, .csv) and JSON lines, and the few fields that are asked of each."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.text.lines import read_lines, suffix

Record = dict[str, Any]
Header = Callable[[list[str]], Sequence[int] | None]  # the columns to read, if the cells of a first row name them
Placed = Iterator[tuple[str, Sequence[str]]]  # the place of each record, and its fields in the order asked for


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line on which each row of a table begins, and its cells: between tabs, or as spreadsheets quote a .csv."""
    if suffix(path) != ".csv":
        for number, line in enumerate(read_lines(path), start=1):
            yield number, line.split("\t")
        return
    reader = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    begin = 1
    try:
        for cells in reader:
            yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path} line {begin} is not sound CSV ({error}); put quotes around cells that hold quotes, commas or "
            f'line ends, and write a quote inside a cell as ""'
        ) from None


def read_table(
    path: Path, header: Header, width: int, advice: str, skipped: Counter[str] | None = None, bare: Header | None = None
) -> Placed:
    """The columns that `header` finds named in the first row, or else those that `bare` knows by that row, or else all
    `width` of a table without names. Blank rows are left out; but where `skipped` counts them, one of several empty
    cells is a record."""
    fields, name = itemgetter(*range(width)), str(path)
    for number, cells in rows(path):
        if number == 1 and bare and (known := bare(cells)):
            fields, width = itemgetter(*known), len(cells)
        if (skipped is None or len(cells) < 2) and not "".join(cells).strip():
            if skipped is not None:
                skipped["blank lines"] += 1
        elif number == 1 and (named := header(cells)):
            fields, width = itemgetter(*named), len(cells)
        elif len(cells) == width:
            yield f"{name} line {number}", fields(cells)
        else:
            given = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            raise InputError(f"{path} line {number} has {given} where {width} were expected; {advice}")


def find_columns(cells: Sequence[str], *names: Sequence[str]) -> list[int] | None:
    """The column of each name, in upper or lower case, if a first row has them all; of several names, the first."""
    lower = [cell.strip().lower() for cell in cells]
    found = [next((lower.index(one) for one in several if one in lower), None) for several in names]
    return None if None in found else [column for column in found if column is not None]


def read_columns(path: Path, names: Collection[Sequence[str]]) -> Iterator[Any]:
    """The columns of these names in each row of a table, whose first row may name them; without it, all cells. A blank
    row is an empty text."""
    columns, width = list[int](), 0
    for number, cells in rows(path):
        if number == 1 and (found := find_columns(cells, *names)):
            columns, width = found, len(cells)
        elif not "".join(cells).strip():
            yield ""
        elif width and len(cells) != width:
            raise InputError(
                f"{path} line {number} has {len(cells)} cells, and the first line names {width}; give each line as many"
            )
        else:
            texts = [cells[column] for column in columns] or cells
            yield tuple(texts) if len(texts) > 1 else texts[0]


def read_objects(path: Path, shape: str, skipped: Counter[str] | None = None) -> Iterator[tuple[str, Record]]:
    """The place of each object of JSON lines, and the object; `shape` says to a person what to write instead."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            place = f"{path} line {number}"
            yield place, _parse(line, place, shape)
        elif skipped is not None:
            skipped["blank lines"] += 1


def _parse(line: str, place: str, shape: str) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: bad JSON, or a number of thousands of digits
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{place} is not valid JSON ({reason}); {shape}") from None
    if not isinstance(record, dict):
        raise InputError(f"{place} holds a JSON {type(record).__name__} where an object was expected; {shape}")
    return record


def text_at(record: Record, key: str, place: str, shape: str) -> str:
    """The text that an object has under a key."""
    if key not in record:
        raise InputError(f"{place} has no {key!r}, only the keys {shown(record)}; {shape}")
    text = record[key]
    if not isinstance(text, str):
        raise InputError(f"{place} has {json.dumps(text)[:40]} as {key!r} where a text in quotes was expected; {shape}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{place} has half of a character (a lone surrogate \\ud800-\\udfff) in {key!r}; write the file again as "
            "UTF-8"
        ) from None
    return text


def texts_at(record: Record, key: str, place: str, shape: str) -> list[str]:
    """The text that an object has under a key, or each of a list of them that is not empty."""
    several = record.get(key)
    if not isinstance(several, list) or not several:
        return [text_at(record, key, place, shape)]
    return [text_at({key: one}, key, place, shape) for one in several]


def shown(record: Record) -> str:
    return ", ".join(map(repr, list(record)[:5])) or "none"


def read_fields(path: Path, names: Mapping[str, Sequence[str]], line: str, bare: Header | None = None) -> Placed:
    """What is asked of each record of a file, none of it empty: each field by the names that it goes by, of which the
    first that is there counts. `line` says to a person what a line of a table without named columns holds."""
    first = [several[0] for several in names.values()]
    if suffix(path) == ".jsonl":
        advice = "write {" + ", ".join(f'"{name}": "..."' for name in first) + "} on each line"
        records: Placed = (
            (place, [field_at(record, several, place, advice) for several in names.values()])
            for place, record in read_objects(path, advice)
        )
    else:
        advice = f"give each line {line.format('a comma' if suffix(path) == '.csv' else 'a tab')}"
        or_name = f"{advice}, or name the columns in the first line ({' and '.join(first)} among them)"
        records = read_table(path, lambda cells: find_columns(cells, *names.values()), len(names), or_name, bare=bare)
    for place, values in records:
        stripped = [value.strip() for value in values]
        if "" in stripped:
            raise InputError(f"{place} has no {list(names)[stripped.index('')]}; {advice}")
        yield place, stripped


def field_at(record: Record, names: Sequence[str], place: str, shape: str) -> str:
    """The text that an object has under the first of some keys that is there; a label may also be a number."""
    key = next((name for name in names if name in record), names[0])
    return json.dumps(record[key]) if isinstance(record.get(key), int | float) else text_at(record, key, place, shape)
