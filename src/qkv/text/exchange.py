"""Pairs out of the exchange formats of translators: TMX 1.4, XLIFF 1.2 and 2.x, and the PO files of GNU gettext."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import matches, pick
from qkv.text.lines import extra, read_lines
from qkv.text.markup import forget, name_of, read_elements, text_of

if TYPE_CHECKING:
    from lxml import etree

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# Where XLIFF names its languages: on <file> in 1.2, on <xliff> in 2.x.
LANGUAGES = {"file": ("source-language", "target-language"), "xliff": ("srcLang", "trgLang")}
# XLIFF 1.2, section 2.6, attribute "state": a target that still waits for its translator.
UNTRANSLATED = frozenset({"new", "needs-translation"})


def read_tmx(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    if source is None or target is None:
        source, target = tmx_languages(path, source, target)
    seen: dict[str, None] = {}  # an ordered set
    is_found = False
    for number, segments in enumerate(_tmx_units(path), start=1):
        place = f"{path} unit {number}"
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


def _tmx_units(path: Path) -> Iterator[dict[str, "etree._Element"]]:
    """The first segment of each language: tu (unit) / tuv (one language) / seg (text)."""
    for event, unit in read_elements(path, "tmx", "TMX 1.4"):
        if event == "end" and name_of(unit) == "tu":
            segments: dict[str, etree._Element] = {}
            for variant in unit:
                segment = next((child for child in variant if name_of(child) == "seg"), None)
                if name_of(variant) == "tuv" and segment is not None:
                    segments.setdefault(variant.get(XML_LANG) or variant.get("lang") or "", segment)
            yield segments
            forget(unit)


def tmx_languages(path: Path, source: str | None, target: str | None) -> tuple[str, str]:
    """A first pass: two languages need not be named, since the header's srclang says which is the source."""
    codes: dict[str, str] = {}
    for code in chain.from_iterable(_tmx_units(path)):
        codes.setdefault(code.lower(), code)
    found = tuple(codes.values())
    listed = ", ".join(found) or "none"
    if len(found) != 2:
        raise InputError(f"{path} has the languages {listed}; say which two are the source and the target")
    named = source or target or _source_of_header(path)
    code_named = pick(found, named) or next((code for code in found if matches(code, named)), None)
    if code_named is None:
        raise InputError(f"{path} has the languages {listed}, and {named!r} is neither; say which is the source")
    other = next(code for code in found if code != code_named)
    return (other, code_named) if source is None and target is not None else (code_named, other)


def _source_of_header(path: Path) -> str:
    """Or "*all*", which means that any language may be the source."""
    headers = (element for _, element in read_elements(path, "tmx", "TMX 1.4") if name_of(element) == "header")
    return next((header.get("srclang") or "" for header in headers), "")


def read_xliff(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    """A trans-unit of 1.2, or each segment of a unit of 2.x."""
    number = 0
    for event, element in read_elements(path, "xliff", "XLIFF 1.2 or 2.0"):
        name = name_of(element)
        if event == "start":
            for asked, attribute in zip((source, target), LANGUAGES.get(name, ()), strict=False):
                if code := element.get(attribute):
                    _check(path, f"{attribute}={code!r}", code, asked)
        elif name in ("trans-unit", "unit"):
            for segment in [element] if name == "trans-unit" else element:
                if name_of(segment) in ("trans-unit", "segment"):
                    number += 1
                    if pair := _xliff_pair(segment, f"{path} segment {number}"):
                        yield pair
                    else:
                        skipped["segments without a translation"] += 1
            forget(element)


def _xliff_pair(segment: "etree._Element", place: str) -> Pair | None:
    # Only direct children: alt-trans and matches hold sources and targets of their own.
    sides = {name_of(child): child for child in segment}
    source, target = sides.get("source"), sides.get("target")
    if source is None or target is None or target.get("state") in UNTRANSLATED:
        return None
    pair = Pair(text_of(source, place), text_of(target, place), place)
    return pair if pair.target.strip() else None


def _check(path: Path, said: str, code: str, asked: str | None) -> None:
    if asked and not matches(asked, code):
        raise InputError(
            f"{path} has {said}, but {asked!r} was asked for; give a file in that language or ask for {code!r}"
        )


class _Content(str):
    """polib breaks a text into lines by `splitlines`, which would also cut a message at U+2028 or a form feed."""

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


def read_po(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    """msgid is the source, msgstr the target; of plural forms, the first and the last."""
    polib = extra("polib", "polib", path)
    content = _Content("\n".join(read_lines(path)) + "\n")  # with a newline in it, polib takes no text for a path
    try:
        catalogue = polib.pofile(content)
    except OSError as error:
        raise InputError(f"{path} is not a sound PO file ({error}); check it with: msgfmt --check {path}") from None
    for asked, field in ((source, "X-Source-Language"), (target, "Language")):
        if code := catalogue.metadata.get(field):
            _check(path, f"the header {field}: {code}", code, asked)
    for entry in catalogue:
        place, forms = f"{path} line {entry.linenum}", entry.msgstr_plural
        if not entry.translated():
            skipped["messages without a finished translation"] += 1
        else:
            yield Pair(entry.msgid, forms[min(forms)] if forms else entry.msgstr, place)
            if forms and entry.msgid_plural:
                yield Pair(entry.msgid_plural, forms[max(forms)], place)
