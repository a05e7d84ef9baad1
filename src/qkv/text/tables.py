"""Tables that other libraries hold in memory, a DataFrame or a Hugging Face dataset, as examples. None is imported."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from qkv.errors import InputError

Row = Mapping[str, Any]


def examples_in(given: Any, wanted: Mapping[str, Sequence[str]], what: str) -> Iterable[Any]:
    """The rows of a table, of each what is `wanted`: fields, and the names that the column of each may have. Other
    columns are left out. What is no table comes back as it is.

    A field alone is the value itself; several are a dict. `what` names the table: "pairs".
    """
    if isinstance(splits := getattr(given, "column_names", None), Mapping):
        known = ", ".join(splits)
        raise InputError(f"{what} is a table in several parts ({known}); give one of them, {what}=data['train']")
    rows = rows_of(given)
    if rows is None:
        return given
    return (chosen(row, wanted, what) for row in rows)


def rows_of(table: Any) -> Iterator[Row] | None:
    """Each row as a dict of its columns: of pandas, of polars, of datasets. None of what is no table."""
    if hasattr(table, "columns") and hasattr(table, "itertuples"):
        names = [str(name) for name in table.columns]
        return (dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None))
    if hasattr(table, "columns") and hasattr(table, "iter_rows"):
        return iter(table.iter_rows(named=True))
    if hasattr(table, "features") and hasattr(table, "__iter__"):
        return in_words(table, table.features or {})
    return None


def in_words(rows: Iterable[Row], features: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of a dataset; the numbers of classes as their names, where it knows them."""
    inner = {name: getattr(feature, "feature", feature) for name, feature in features.items()}  # of each in a list
    named = {name: feature.int2str for name, feature in inner.items() if hasattr(feature, "int2str")}
    for row in rows:
        yield {name: named[name](value) if name in named and is_known(value) else value for name, value in row.items()}


def is_known(value: Any) -> bool:
    """Datasets have -1 or None where the class of an example is not told."""
    return all(one is not None and one >= 0 for one in (value if isinstance(value, list) else [value]))


def chosen(row: Row, wanted: Mapping[str, Sequence[str]], what: str) -> Any:
    """What is wanted of a row, or of the dict in one of its columns: {"translation": {"en": .., "de": ..}}."""
    inside = [value for value in row.values() if isinstance(value, Mapping)]
    for columns in (row, *inside):
        found = {field: next((name for name in names if name in columns), None) for field, names in wanted.items()}
        if all(name is not None for name in found.values()):
            values = {field: as_text(field, columns[name or ""]) for field, name in found.items()}
            return values if len(values) > 1 else next(iter(values.values()))
        if columns is row:
            lacking = next(field for field, name in found.items() if name is None)
    names = " or ".join(dict.fromkeys(wanted[lacking]))
    raise InputError(f"the table of {what} has the columns {', '.join(row)}; name the one of each {lacking} {names}")


def as_text(field: str, value: Any) -> Any:
    """A column's value as examples have it: labels may be numbers, and lists may be arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if field == "label" and isinstance(value, int | float) and math.isfinite(value):
        return str(value)
    return value
