"""JSON lines: one object on each line, with a source and a target, or with two languages."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.text.language import pick
from qkv.text.lines import read_lines
from qkv.text.pair import Pair

SHAPE = 'write {"source": "...", "target": "..."} or {"en": "...", "de": "..."} on each line'


def read_jsonl(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            skipped["blank lines"] += 1
            continue
        place = f"{path} line {number}"
        record = _parse(line, place)
        inner = record.get("translation")  # the shape of Hugging Face's translation sets
        if isinstance(inner, dict):
            record = inner
        src, tgt = "source", "target"
        if src not in record or tgt not in record:
            src, tgt = _by_language(record, source, target, place)
        yield Pair(_text(record, src, line, place), _text(record, tgt, line, place), place)


def _parse(line: str, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: bad JSON, or a number of thousands of digits
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{place} is not valid JSON ({reason}); {SHAPE}") from None
    if not isinstance(record, dict):
        raise InputError(f"{place} holds a JSON {type(record).__name__} where an object was expected; {SHAPE}")
    return record


def _by_language(record: dict[str, Any], source: str | None, target: str | None, place: str) -> tuple[str, str]:
    keys = tuple(record)
    if source and target:
        src, tgt = pick(keys, source), pick(keys, target)
        if src is not None and tgt is not None:
            return src, tgt
    shown = ", ".join(map(repr, keys[:5])) or "none"
    if not (source and target):
        raise InputError(f"{place} has the keys {shown}; say which languages are the source and the target")
    raise InputError(f"{place} has no text in {source!r} and {target!r}, only the keys {shown}; {SHAPE}")


def _text(record: dict[str, Any], key: str, line: str, place: str) -> str:
    text = record[key]
    if not isinstance(text, str):
        raise InputError(f"{place} has {json.dumps(text)[:40]} as {key!r} where a text in quotes was expected; {SHAPE}")
    if "\\u" in line:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{place} has half of a character (a lone surrogate \\ud800-\\udfff) in {key!r}; write the file "
                f"again as UTF-8"
            ) from None
    return text
