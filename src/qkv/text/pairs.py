"""Pairs out of two plain files, of tables and of JSON lines."""

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import is_code, pick
from qkv.text.lines import read_lines
from qkv.text.records import Record, find_columns, read_objects, read_table, rows, shown, texts_at

OBJECT = 'write {"source": "...", "target": "..."} or {"en": "...", "de": "..."} on each line'
ROW = (
    "give each line two cells, the source and the target, or name the columns in the first line (for example en and de)"
)


def read_plain(source: Path, target: Path) -> Iterator[Pair]:
    """Line i of one file is the translation of line i of the other."""
    src_lines, tgt_lines, name = read_lines(source), read_lines(target), str(source)
    for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines), start=1):
        if src is None or tgt is None:
            shorter, longer = number - 1, number + sum(1 for _ in (tgt_lines if src is None else src_lines))
            counts = [f"{n:,} line{'s' if n != 1 else ''}" for n in (shorter, longer)][:: 1 if src is None else -1]
            raise InputError(
                f"{source} has {counts[0]} and {target} has {counts[1]}, but line 1 must translate line 1, line 2 line "
                f"2 and so on; look for a missing or an extra line, or give two files that belong together"
            )
        yield Pair(src, tgt, f"{name} line {number}")


def read_pair_rows(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    """Each row of a table has two cells, or those of two columns that the first row names."""
    for place, (src, tgt) in read_table(path, lambda cells: _header(path, cells, source, target), 2, ROW, skipped):
        yield Pair(src, tgt, place)


def row_languages(path: Path, source: str | None, target: str | None) -> tuple[str, str] | None:
    """The source and target language, if the first row of a table names them."""
    cells = next((cells for _, cells in rows(path)), [])
    if (columns := _header(path, cells, source, target)) is None:
        return None
    src, tgt = (cells[column].strip() for column in columns)
    return (src, tgt) if is_code(src) and is_code(tgt) else None


def _header(path: Path, cells: list[str], source: str | None, target: str | None) -> tuple[int, int] | None:
    """The source's and the target's column, if the first row names languages."""
    names = tuple(cell.strip() for cell in cells)
    if columns := find_columns(cells, ["source"], ["target"]):
        return columns[0], columns[1]
    if source and target:
        src, tgt = pick(names, source), pick(names, target)
        if src is not None and tgt is not None and src != tgt:
            return names.index(src), names.index(tgt)
    if len(names) < 2 or len({name.lower() for name in names}) < len(names) or not all(map(is_code, names)):
        return None
    if len(names) == 2 and not (source and target):
        named = pick(names, source or target or names[0])
        if named is not None:
            column = names.index(named)
            return (1 - column, column) if target else (column, 1 - column)
    raise InputError(
        f"{path} names the columns {', '.join(names)}, but the languages asked for are {source} (source) and {target} "
        f"(target); ask for two of those columns"
    )


def read_pair_objects(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    """Each object has a source and a target, or two languages. A source may be a list of sentences, which are put
    together; of a list of targets each makes a pair with the source."""
    for place, record in read_objects(path, OBJECT, skipped):
        inner = record.get("translation")  # the shape of Hugging Face's translation sets
        record = inner if isinstance(inner, dict) else record
        src, tgt = "source", "target"
        if src not in record or tgt not in record:
            src, tgt = _keys(record, source, target, place)
        text = " ".join(texts_at(record, src, place, OBJECT))
        yield from (Pair(text, one, place) for one in texts_at(record, tgt, place, OBJECT))


def _keys(record: Record, source: str | None, target: str | None, place: str) -> tuple[str, str]:
    if not (source and target):
        raise InputError(f"{place} has the keys {shown(record)}; say which languages are the source and the target")
    src, tgt = pick(tuple(record), source), pick(tuple(record), target)
    if src is None or tgt is None:
        raise InputError(f"{place} has no text in {source!r} and {target!r}, only the keys {shown(record)}; {OBJECT}")
    return src, tgt
