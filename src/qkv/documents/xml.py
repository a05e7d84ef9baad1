"""XML that is edited where it stands: elements with their places, and text with inline codes."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field

from qkv.documents.format import TextFormat
from qkv.documents.segment import Mark, Parts
from qkv.documents.tags import ENTITY, Tag, check_xml, scan
from qkv.text.markup import CODES


@dataclass
class Element:
    """An element, from the start of its first tag to the end of its last."""

    first: Tag
    parent: "Element | None"
    last: Tag | None = None  # of an empty element the first
    children: list["Element"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def start(self) -> int:
        return self.first.start

    @property
    def end(self) -> int:
        return (self.last or self.first).end

    @property
    def inside(self) -> tuple[int, int]:
        """Where the content begins and ends; of an empty element nowhere."""
        return self.first.end, max(self.first.end, (self.last or self.first).start)

    def child(self, name: str) -> "Element | None":
        return next((child for child in self.children if child.name == name), None)

    def get(self, attribute: str) -> str:
        return html.unescape(self.first.get(attribute.lower()))


def elements(text: str, start: int = 0, end: int | None = None) -> Iterator[Element]:
    """Each element when it is complete, so that the inner ones come before the outer."""
    stack: list[Element] = []
    for tag in scan(text, start, end):
        if tag.is_open:
            stack.append(Element(tag, stack[-1] if stack else None))
        if tag.is_close and stack:
            element = stack.pop()
            element.last = tag
            if stack:
                stack[-1].children.append(element)
            yield element


class XmlFormat(TextFormat):
    """A format that is XML: checked, then edited as text."""

    def open(self, data: bytes) -> None:
        check_xml(data, self.name)
        super().open(data)

    def escape(self, text: str) -> str:
        return html.escape(text, quote=False)

    def space_before(self, at: int) -> str:
        """The line end and the indentation before this place."""
        start = at
        while self.text[start - 1 : start].isspace():
            start -= 1
        return self.text[start:at]

    def parts(self, start: int, end: int) -> Parts:
        """Text with marks for its inline elements; what is in a native code (`bpt`, `ph` ...) is no text."""
        parts: Parts = []
        skip = at = start
        tags = list(scan(self.text, start, end))
        for number, tag in enumerate(tags):
            if tag.start < skip:
                continue
            parts += decoded(self.text[at : tag.start])
            skip = tag.end
            if tag.text.startswith("<![CDATA["):
                parts.append(tag.text[9:-3])
            elif tag.is_open and not tag.is_close and (tag.name in CODES or is_protected(tag)):
                skip = end_of(tags, number)
                parts.append(Mark(self.text[tag.start : skip], "alone" if tag.name in CODES else "word"))
            elif tag.is_open == tag.is_close:
                parts.append(Mark(tag.text))
            else:
                parts.append(Mark(tag.text, "open" if tag.is_open else "close", tag.name))
            at = skip
        return parts + decoded(self.text[at:end])


def is_protected(tag: Tag) -> bool:
    """XLIFF's mrk around a name or a piece of code: mtype="protected" in 1.2, translate="no" in 2.x."""
    return tag.name == "mrk" and (tag.get("mtype") == "protected" or tag.get("translate") == "no")


def end_of(tags: list[Tag], number: int) -> int:
    """Where the element ends that this tag opens."""
    depth = 0
    for at in range(number, len(tags)):
        if tags[at].name == tags[number].name:
            depth += tags[at].is_open - tags[at].is_close
            if depth == 0:
                return tags[at].end
    return tags[-1].end


def decoded(text: str) -> Parts:
    """Text without entities; a line end or tab that is spelled as one stays so."""
    parts: Parts = []
    waiting = ""
    begin = 0
    for match in ENTITY.finditer(text):
        character = html.unescape(match[0])
        waiting += text[begin : match.start()]
        if character in "\n\r\t":
            parts += [waiting, Mark(match[0], "gap")]
        waiting = "" if character in "\n\r\t" else waiting + character
        begin = match.end()
    return [part for part in [*parts, waiting + text[begin:]] if part != ""]
