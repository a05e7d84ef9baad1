"""Tags of HTML and XML with their places in the text, in one pass and without backtracking."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from qkv.errors import InputError

# Every "<" that begins a tag matches, if need be up to the end of the text, so that nothing is looked at twice.
TAG = re.compile(
    r"""<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[?!][^>]*(?:>|\Z)"""
    r"""|<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*)(?:[^>"']|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*+(?:>|\Z)""",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?""")
ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")


@dataclass(frozen=True)
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
            group = next((number for number in (2, 3, 4) if match[number] is not None), 1)
            value = match[group] if group > 1 else ""
            found.setdefault(match[1].lower(), (value, self.start + match.start(group), self.start + match.end(group)))
        return found

    def get(self, name: str) -> str:
        return self.attributes().get(name, ("", 0, 0))[0]


def scan(text: str, start: int = 0, end: int | None = None, raw: frozenset[str] = frozenset()) -> Iterator[Tag]:
    """The tags in their order; within the elements named in `raw`, only their own end is one."""
    end = len(text) if end is None else end
    while match := TAG.search(text, start, end):
        start = match.end()
        name = (match["name"] or "").rpartition(":")[2]
        closes = match["slash"] == "/"
        yield Tag(match.start(), start, name, bool(name) and not closes, closes or match[0].endswith("/>"), match[0])
        if name.lower() in raw and not closes:
            ending = re.compile(f"</{re.escape(name)}", re.IGNORECASE).search(text, start, end)
            start = ending.start() if ending else end


def check_xml(data: bytes, name: str) -> None:
    """Refuse what is not sound XML, and entities, which can read other files or grow without end."""
    try:
        from lxml import etree
    except ImportError:
        raise InputError(f"reading {name} needs lxml; install it with: pip install 'qkv[formats]'") from None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        reason = str(error.msg)
        if "ntity" in reason:
            refuse_entities(name, reason)
        raise InputError(f"{name} line {error.lineno} is not sound XML ({reason}); export the file again") from None
    dtd: Any = root.getroottree().docinfo.internalDTD
    if dtd is not None and (names := [entity.name for entity in dtd.iterentities()]):
        refuse_entities(name, f"its DOCTYPE declares {names[0]!r}")


def refuse_entities(name: str, reason: str) -> NoReturn:
    raise InputError(
        f"{name} uses XML entities ({reason}), which are refused because they can read other files or grow without "
        "end; write the characters themselves"
    )
