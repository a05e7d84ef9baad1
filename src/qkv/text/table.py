"""Tables: tab-separated (.tsv, no quoting) and comma-separated (.csv, quoted as spreadsheets do)."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import is_code, pick
from qkv.text.lines import read_lines

Rows = Iterable[tuple[int, list[str]]]  # the line on which a row begins, and its cells


def read_tsv(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    return _pairs(path, tsv_rows(path), source, target, skipped)


def read_csv(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    return _pairs(path, csv_rows(path), source, target, skipped)


def tsv_languages(path: Path, source: str | None, target: str | None) -> tuple[str, str] | None:
    return _languages(path, tsv_rows(path), source, target)


def csv_languages(path: Path, source: str | None, target: str | None) -> tuple[str, str] | None:
    return _languages(path, csv_rows(path), source, target)


def _languages(path: Path, rows: Rows, source: str | None, target: str | None) -> tuple[str, str] | None:
    """The source and target language, if the first row names them."""
    cells = next((cells for _, cells in rows), [])
    columns = _header(path, cells, source, target) if len(cells) > 1 else None
    codes = (cells[columns[0]].strip(), cells[columns[1]].strip()) if columns else ("", "")
    return codes if all(map(is_code, codes)) else None


def tsv_rows(path: Path) -> Rows:
    return ((number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1))


def csv_rows(path: Path) -> Rows:
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


def find_columns(cells: Sequence[str], *names: Sequence[str]) -> list[int] | None:
    """The column of each name, in upper or lower case, if a first row has them all; of several names, the first."""
    lower = [cell.strip().lower() for cell in cells]
    found = [next((lower.index(one) for one in several if one in lower), None) for several in names]
    return None if None in found else [column for column in found if column is not None]


def _pairs(path: Path, rows: Rows, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    columns: tuple[int, int] | None = None
    width = 2
    for number, cells in rows:
        if len(cells) < 2 and not "".join(cells).strip():
            skipped["blank lines"] += 1
            continue
        if number == 1 and (columns := _header(path, cells, source, target)):
            width = len(cells)
            continue
        if len(cells) != width:
            raise InputError(
                f"{path} line {number} has {_count(len(cells))} where {width} were expected; give each line two cells, "
                f"the source and the target, or name the columns in the first line (for example en and de)"
            )
        first, second = columns or (0, 1)
        yield Pair(cells[first], cells[second], f"{path} line {number}")


def _header(path: Path, cells: list[str], source: str | None, target: str | None) -> tuple[int, int] | None:
    """The source's and the target's column, if the first row names languages."""
    names = tuple(cell.strip() for cell in cells)
    if columns := find_columns(cells, ["source"], ["target"]):
        return columns[0], columns[1]
    if source and target:
        src, tgt = pick(names, source), pick(names, target)
        if src is not None and tgt is not None and src != tgt:
            return names.index(src), names.index(tgt)
    if len(names) == 1 or len({name.lower() for name in names}) < len(names) or not all(map(is_code, names)):
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


def _count(cells: int) -> str:
    return "1 cell" if cells == 1 else f"{cells} cells"
