"""Records of a few named fields, out of tables (.tsv, .csv) and JSON lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.errors import InputError
from qkv.text.jsonl import label_at, read_records
from qkv.text.lines import suffix
from qkv.text.table import csv_rows, find_columns, tsv_rows


@dataclass(frozen=True)
class Fields:
    """What is asked of a file: each field with the names that it goes by, of which the first that is there counts."""

    names: Mapping[str, Sequence[str]]
    line: str  # what a line of a table without named columns holds, for people

    def read(self, path: Path) -> Iterator[tuple[str, list[str]]]:
        """The place of each record, and its fields in their order; none of them is empty."""
        for place, values in self._objects(path) if suffix(path) == ".jsonl" else self._rows(path):
            stripped = [value.strip() for value in values]
            if "" in stripped:
                raise InputError(f"{place} has no {list(self.names)[stripped.index('')]}; {self._advice(path)}")
            yield place, stripped

    def _rows(self, path: Path) -> Iterator[tuple[str, list[str]]]:
        columns, width = list(range(len(self.names))), len(self.names)
        for number, cells in csv_rows(path) if suffix(path) == ".csv" else tsv_rows(path):
            if number == 1 and (named := find_columns(cells, *self.names.values())):
                columns, width = named, len(cells)
                continue
            if not "".join(cells).strip():
                continue
            if len(cells) != width:
                names = " and ".join(several[0] for several in self.names.values())
                raise InputError(
                    f"{path} line {number} has {len(cells)} cells where {width} were expected; {self._advice(path)}, "
                    f"or name the columns in the first line ({names} among them)"
                )
            yield f"{path} line {number}", [cells[column] for column in columns]

    def _objects(self, path: Path) -> Iterator[tuple[str, list[str]]]:
        shape = self._advice(path)
        for place, record in read_records(path, shape):
            keys = [next((name for name in several if name in record), several[0]) for several in self.names.values()]
            yield place, [label_at(record, key, place, shape) for key in keys]

    def _advice(self, path: Path) -> str:
        if suffix(path) == ".jsonl":
            keys = ", ".join(f'"{several[0]}": "..."' for several in self.names.values())
            return f"write {{{keys}}} on each line"
        return f"give each line {self.line.format('a comma' if suffix(path) == '.csv' else 'a tab')}"
