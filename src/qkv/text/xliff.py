"""XLIFF 1.2 (trans-unit) and 2.x (unit / segment), the exchange formats of localisation."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import matches
from qkv.text.markup import forget, name_of, read_elements, text_of

if TYPE_CHECKING:
    from lxml import etree

# Where the languages are named: on <file> in 1.2, on <xliff> in 2.x.
LANGUAGES = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}
# XLIFF 1.2, section 2.6, attribute "state": a target that still waits for its translator.
UNTRANSLATED = frozenset({"new", "needs-translation"})


def read_xliff(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    is_first = True
    number = 0
    for event, element in read_elements(path):
        name = name_of(element)
        if is_first and name != "xliff":
            raise InputError(f"{path} begins with <{name}> where <xliff> was expected; export it as XLIFF 1.2 or 2.0")
        is_first = False
        if event == "start":
            if name in LANGUAGES:
                _check_languages(path, element, source, target)
        elif name in ("trans-unit", "unit"):
            for segment in _segments(element):
                number += 1
                pair = _pair(segment, f"{path} segment {number}")
                if pair is None:
                    skipped["segments without a translation"] += 1
                else:
                    yield pair
            forget(element)


def _check_languages(path: Path, element: "etree._Element", source: str | None, target: str | None) -> None:
    for asked, attribute in zip((source, target), LANGUAGES[name_of(element)], strict=True):
        code = element.get(attribute)
        if asked and code and not matches(asked, code):
            raise InputError(
                f"{path} has {attribute}={code!r}, but {asked!r} was asked for; give a file in that language or ask "
                f"for {code!r}"
            )


def _segments(unit: "etree._Element") -> list["etree._Element"]:
    """The elements that hold source and target: a trans-unit itself, or each segment of a unit."""
    if name_of(unit) == "trans-unit":
        return [unit]
    return [child for child in unit if name_of(child) == "segment"]


def _pair(segment: "etree._Element", place: str) -> Pair | None:
    # Only direct children: alt-trans and matches hold sources and targets of their own.
    sides = {name_of(child): child for child in segment}
    source, target = sides.get("source"), sides.get("target")
    if source is None or target is None or target.get("state") in UNTRANSLATED:
        return None
    pair = Pair(text_of(source, place), text_of(target, place), place)
    return pair if pair.target.strip() else None
