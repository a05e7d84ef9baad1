"""XML that is edited where it stands: elements with their places, and text with inline codes."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field

from qkv.documents.format import TextFormat
from qkv.documents.segment import Mark, Parts
from qkv.documents.tags import Tag, decoded, end_of, scan
from qkv.errors import InputError
from qkv.text.markup import CODES, check_xml, wrong_root


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


class XmlFormat(TextFormat):
    """A format that is XML: checked, then edited as text."""

    is_markup = True

    def open(self, data: bytes) -> None:
        check_xml(data, self.name)
        super().open(data)

    def elements(self, root: str, wanted: str) -> list[Element]:
        """All of them, of which the root is the last."""
        found = list(elements(self.text))
        name = found[-1].name if found else ""
        if name != root:
            raise InputError(wrong_root(self.name, name, root, wanted))
        return found

    def space_before(self, at: int) -> str:
        """The line end and the indentation before this place."""
        start = at
        while self.text[start - 1 : start].isspace():
            start -= 1
        return self.text[start:at]

    def fill(self, start: int, end: int, source: Element, before: str = "", after: str = "") -> None:
        """Add what is in an element as a segment that comes elsewhere, between two pieces of XML."""
        parts: Parts = [Mark(before, "gap"), *self.parts(*source.inside), Mark(after, "gap")]
        self.add(start, end, parts, before + self.text[slice(*source.inside)] + after)

    def parts(self, start: int, end: int) -> Parts:
        """Text with marks for its inline elements; what is in a native code (`bpt`, `ph` ...) is no text."""
        parts: Parts = []
        skip = at = start
        tags = list(scan(self.text, start, end))
        for number, tag in enumerate(tags):
            if tag.start < skip:
                continue
            parts += decoded(self.text[at : tag.start], gap)
            skip = tag.end
            if tag.text.startswith("<![CDATA["):
                parts.append(tag.text[9:-3])
            elif tag.is_open and not tag.is_close and (tag.name in CODES or is_protected(tag)):
                skip = tags[end_of(tags, number)].end
                parts.append(Mark(self.text[tag.start : skip], "alone" if tag.name in CODES else "word"))
            elif tag.is_open == tag.is_close:
                parts.append(Mark(tag.text))
            else:
                parts.append(Mark(tag.text, "open" if tag.is_open else "close", tag.name))
            at = skip
        return parts + decoded(self.text[at:end], gap)


def is_protected(tag: Tag) -> bool:
    """XLIFF's mrk around a name or a piece of code: mtype="protected" in 1.2, translate="no" in 2.x."""
    return tag.name == "mrk" and (tag.get("mtype") == "protected" or tag.get("translate") == "no")


def gap(entity: str, character: str) -> Mark | None:
    """A line end or tab that is spelled as an entity stays so."""
    return Mark(entity, "gap") if character in "\n\r\t" else None
