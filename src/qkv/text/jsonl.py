"""JSON lines: one object on each line; of pairs, one with a source and a target, or with two languages."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import pick
from qkv.text.lines import read_lines

Record = dict[str, Any]
SHAPE = 'write {"source": "...", "target": "..."} or {"en": "...", "de": "..."} on each line'


def read_records(path: Path, shape: str, skipped: Counter[str] | None = None) -> Iterator[tuple[str, Record]]:
    """The place of each object of a file, and the object; `shape` says to a person what to write instead."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            place = f"{path} line {number}"
            yield place, parse_record(line, place, shape)
        elif skipped is not None:
            skipped["blank lines"] += 1


def parse_record(line: str, place: str, shape: str) -> Record:
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
        raise InputError(f"{place} has no {key!r}, only the keys {_shown(record)}; {shape}")
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


def label_at(record: Record, key: str, place: str, shape: str) -> str:
    """A label or a number as text."""
    is_number = isinstance(record.get(key), int | float)
    return json.dumps(record[key]) if is_number else text_at(record, key, place, shape)


def read_jsonl(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    for place, record in read_records(path, SHAPE, skipped):
        inner = record.get("translation")  # the shape of Hugging Face's translation sets
        if isinstance(inner, dict):
            record = inner
        src, tgt = "source", "target"
        if src not in record or tgt not in record:
            src, tgt = _by_language(record, source, target, place)
        yield Pair(text_at(record, src, place, SHAPE), text_at(record, tgt, place, SHAPE), place)


def _by_language(record: Record, source: str | None, target: str | None, place: str) -> tuple[str, str]:
    keys = tuple(record)
    if source and target:
        src, tgt = pick(keys, source), pick(keys, target)
        if src is not None and tgt is not None:
            return src, tgt
        raise InputError(f"{place} has no text in {source!r} and {target!r}, only the keys {_shown(record)}; {SHAPE}")
    raise InputError(f"{place} has the keys {_shown(record)}; say which languages are the source and the target")


def _shown(record: Record) -> str:
    return ", ".join(map(repr, list(record)[:5])) or "none"
