"""Tags and elements of HTML and XML with their places in the text, in one pass and without backtracking.

Files are edited where they stand, and no parser at hand says where things stand: lxml knows lines, html.parser where a
tag begins but not where an end tag or an attribute's value ends, expat bytes of tags but no values and no HTML.
"""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from qkv.documents.segment import Mark, Parts, replaced

# Every "<" that begins a tag matches, if need be up to the end of the text, so that nothing is looked at twice.
TAG = re.compile(
    r"""<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[?!][^>]*(?:>|\Z)"""
    r"""|<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*)(?:[^>"']|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*+(?:>|\Z)""",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?""")
ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")


@dataclass
class Tag:
    """One tag, or a comment, declaration or CDATA section, whose name is empty."""

    start: int
    end: int
    name: str  # without a namespace's prefix
    is_open: bool
    is_close: bool  # an empty element is both
    text: str  # the tag itself

    def attributes(self) -> dict[str, tuple[str, int, int]]:
        """Name in lower case -> raw value, and where it begins and ends in the document."""
        found: dict[str, tuple[str, int, int]] = {}
        inner = self.text.rstrip(">").rstrip("/")
        for match in ATTRIBUTE.finditer(inner, len(re.match(r"</?[^\s/>]*", self.text)[0])):  # type: ignore[index]
            group = match.lastindex or 1
            value = match[group] if group > 1 else ""
            found.setdefault(match[1].lower(), (value, self.start + match.start(group), self.start + match.end(group)))
        return found

    def get(self, name: str) -> str:
        return self.attributes().get(name, ("", 0, 0))[0]


def scan(text: str, start: int = 0, end: int | None = None, raw: frozenset[str] = frozenset()) -> Iterator[Tag]:
    """The tags in their order. In HTML there are `raw` elements, within which only their own end is one, and names are
    in lower case."""
    end = len(text) if end is None else end
    while match := TAG.search(text, start, end):
        start = match.end()
        name = (match["name"] or "").rpartition(":")[2]
        name = name.lower() if raw else name
        closes = match["slash"] == "/"
        yield Tag(match.start(), start, name, bool(name) and not closes, closes or match[0].endswith("/>"), match[0])
        if name in raw and not closes:
            ending = re.compile(f"</{re.escape(name)}", re.IGNORECASE).search(text, start, end)
            start = ending.start() if ending else end


def with_attributes(tag: str, new: dict[str, str]) -> str:
    """The text of a tag with other values of these attributes, and those that it lacks behind the others."""
    (found,) = scan(tag)
    known, end = found.attributes(), len(tag.removesuffix(">").removesuffix("/").rstrip())
    lacking = "".join(f' {name}="{value}"' for name, value in new.items() if name.lower() not in known)
    changes = [(*known[name.lower()][1:], value) for name, value in new.items() if name.lower() in known]
    for start, stop, value in sorted([*changes, (end, end, lacking)], reverse=True):
        tag = tag[:start] + value + tag[stop:]
    return tag


def end_of(tags: list[Tag], number: int) -> int:
    """The number of the tag that ends the element which this one opens; of the last one, if none does."""
    depth = 0
    for at in range(number, len(tags)):
        if tags[at].name == tags[number].name:
            depth += tags[at].is_open - tags[at].is_close
            if depth <= 0:
                return at
    return len(tags) - 1


@dataclass
class Element(Tag):
    """From the start of its first tag, which is its `text`, to the end of its last; <a/> opens and closes itself."""

    inside: tuple[int, int]  # where the content begins and ends
    parent: "Element | None"
    children: list["Element"] = field(default_factory=list)

    def child(self, name: str) -> "Element | None":
        return next((child for child in self.children if child.name == name), None)

    def get(self, name: str) -> str:
        return html.unescape(super().get(name.lower()))

    def outwards(self) -> Iterator["Element"]:
        """The element itself, the one that it is in, and so on."""
        element: Element | None = self
        while element is not None:
            yield element
            element = element.parent


def elements(text: str) -> Iterator[Element]:
    """Each element when it is complete, so that the inner ones come before the outer."""
    stack: list[Element] = []
    for tag in scan(text):
        if tag.is_open:
            stack.append(Element(**vars(tag), inside=(tag.end, tag.end), parent=stack[-1] if stack else None))
        if tag.is_close and stack:
            element = stack.pop()
            element.inside = (element.end, max(element.end, tag.start))
            element.end = tag.end
            if stack:
                stack[-1].children.append(element)
            yield element


def decoded(text: str, mark: Callable[[str, str], Mark | None]) -> Parts:
    """Text with the character of each entity, unless `mark`, which is given the two, has a mark for it."""
    found = ((match, html.unescape(match[0])) for match in ENTITY.finditer(text))
    return replaced(text, ((*match.span(), mark(match[0], character) or character) for match, character in found))
