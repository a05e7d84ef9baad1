"""TMX 1.4, the exchange format of translation memories: tu (unit) / tuv (one language) / seg (text)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import matches, pick
from qkv.text.markup import forget, name_of, read_elements, text_of

if TYPE_CHECKING:
    from lxml import etree

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    if source is None or target is None:
        source, target = tmx_languages(path, source, target)
    seen: dict[str, None] = {}  # an ordered set
    is_found = False
    for number, unit in enumerate(_units(path), start=1):
        place = f"{path} unit {number}"
        segments = _segments(unit)
        seen.update(dict.fromkeys(segments))
        codes = tuple(segments)
        src, tgt = pick(codes, source), pick(codes, target)
        if src is None or tgt is None:
            skipped["translation units without both languages"] += 1
        else:
            is_found = True
            yield Pair(text_of(segments[src], place), text_of(segments[tgt], place), place)
    if not is_found:
        raise InputError(
            f"{path} has no unit in both {source!r} and {target!r}; its languages are: {', '.join(seen) or 'none'}"
        )


def _units(path: Path) -> Iterator["etree._Element"]:
    is_first = True
    for event, element in read_elements(path):
        if is_first and name_of(element) != "tmx":
            raise InputError(f"{path} begins with <{name_of(element)}> where <tmx> was expected; export it as TMX 1.4")
        is_first = False
        if event == "end" and name_of(element) == "tu":
            yield element
            forget(element)


def _segments(unit: "etree._Element") -> dict[str, "etree._Element"]:
    """The first segment of each language."""
    segments: dict[str, etree._Element] = {}
    for variant in unit:
        if name_of(variant) == "tuv":
            code = variant.get(XML_LANG) or variant.get("lang") or ""
            segment = next((child for child in variant if name_of(child) == "seg"), None)
            if segment is not None:
                segments.setdefault(code, segment)
    return segments


def tmx_languages(path: Path, source: str | None, target: str | None) -> tuple[str, str]:
    """A first pass: two languages need not be named, since the header's srclang says which is the source."""
    codes: dict[str, str] = {}
    for unit in _units(path):
        for code in _segments(unit):
            codes.setdefault(code.lower(), code)
    found = tuple(codes.values())
    listed = ", ".join(found) or "none"
    if len(found) != 2:
        raise InputError(f"{path} has the languages {listed}; say which two are the source and the target")
    named = source or target or _header_language(path)
    code_named = pick(found, named) or next((code for code in found if matches(code, named)), None)
    if code_named is None:
        raise InputError(f"{path} has the languages {listed}, and {named!r} is neither; say which is the source")
    other = next(code for code in found if code != code_named)
    return (other, code_named) if source is None and target is not None else (code_named, other)


def _header_language(path: Path) -> str:
    """What the header says; "*all*" there means that any language may be the source."""
    for event, element in read_elements(path):
        if event == "start" and name_of(element) == "header":
            return element.get("srclang") or ""
    return ""
