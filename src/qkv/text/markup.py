"""XML from strangers: read as a stream in constant memory, with entities refused and nothing fetched."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qkv.errors import InputError
from qkv.text.lines import read_blocks

if TYPE_CHECKING:
    from lxml import etree

# Elements whose content is a native code (a tag of the original document) and not text: TMX 1.4b, "Inline elements";
# XLIFF 1.2, section 2.4. All other inline elements (hi, g, pc, mrk ...) hold text, or nothing.
CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})


def read_elements(path: Path) -> Iterator[tuple[str, "etree._Element"]]:
    """("start" or "end", element) in document order; the caller forgets what it has used."""
    try:
        from lxml import etree
    except ImportError:
        raise InputError(f"reading {path} needs lxml; install it with: pip install 'qkv[formats]'") from None
    parser: Any = etree.XMLPullParser(
        ["start", "end"], resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    is_checked = False
    try:
        for block in read_blocks(path):
            parser.feed(block)
            for event, element in parser.read_events():
                if not is_checked:
                    _check_entities(path, element)
                    is_checked = True
                yield event, element
        parser.close()
    except etree.XMLSyntaxError as error:
        # The log knows the line and the cause where the exception only says "no element found".
        last = parser.feed_error_log.last_error
        line, reason = (last.line, last.message) if last else (1, error.msg)
        if "entity" in reason.lower():
            _refuse_entities(f"{path} line {line}", reason)
        raise InputError(
            f"{path} line {line} is not sound XML ({reason}); repair the file or export it again"
        ) from None


def _check_entities(path: Path, root: "etree._Element") -> None:
    dtd: Any = root.getroottree().docinfo.internalDTD  # Any: the stubs do not know iterentities
    if dtd is not None and (names := [entity.name for entity in dtd.iterentities()]):
        _refuse_entities(f"{path}", f"its DOCTYPE declares {names[0]!r}")


def _refuse_entities(place: str, reason: str) -> NoReturn:
    raise InputError(
        f"{place} uses XML entities ({reason}), which are refused because they can read other files or grow without "
        f"end; write the characters themselves"
    ) from None


def name_of(element: "etree._Element") -> str:
    """The element's name without its namespace; nothing for comments and processing instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def text_of(element: "etree._Element", place: str) -> str:
    """The text of a segment without its inline codes."""
    parts = [element.text or ""]
    for child in element:
        if not isinstance(child.tag, str) and child.tag.__name__ == "Entity":
            _refuse_entities(place, f"{child.text}")
        if (name := name_of(child)) and name not in CODES:
            parts.append(text_of(child, place))
        parts.append(child.tail or "")
    return "".join(parts)


def forget(element: "etree._Element") -> None:
    """Free an element that has ended, and all that stood before it."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]
