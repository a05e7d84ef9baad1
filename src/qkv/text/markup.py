"""XML from strangers: read as a stream in constant memory, with entities refused and nothing fetched."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qkv.errors import InputError
from qkv.text.lines import extra, read_blocks

if TYPE_CHECKING:
    from lxml import etree

# Elements whose content is a native code (a tag of the original document) and not text: TMX 1.4b, "Inline elements";
# XLIFF 1.2, section 2.4. All other inline elements (hi, g, pc, mrk ...) hold text, or nothing.
CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
CAREFUL: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}


def read_elements(path: Path, root: str, wanted: str) -> Iterator[tuple[str, "etree._Element"]]:
    """("start" or "end", element) in document order, of a file whose first element is `root`; the caller forgets what
    it has used."""
    etree = extra("lxml.etree", "lxml", path)
    parser = etree.XMLPullParser(["start", "end"], **CAREFUL)
    is_checked = False
    try:
        for block in read_blocks(path):
            parser.feed(block)
            for event, element in parser.read_events():
                if not is_checked:
                    check_entities(path, element)
                    if name_of(element) != root:
                        raise InputError(wrong_root(path, name_of(element), root, wanted))
                    is_checked = True
                yield event, element
        parser.close()
    except etree.XMLSyntaxError as error:
        # The log knows the line and the cause where the exception only says "no element found".
        last = parser.feed_error_log.last_error
        refuse_xml(path, *((last.line, last.message) if last else (1, error.msg)))


def check_xml(data: bytes, name: str) -> None:
    """The same checks of a file that is read as a whole."""
    etree = extra("lxml.etree", "lxml", name)
    try:
        check_entities(name, etree.fromstring(data, etree.XMLParser(**CAREFUL)))
    except etree.XMLSyntaxError as error:
        refuse_xml(name, error.lineno, error.msg)


def check_entities(name: object, root: "etree._Element") -> None:
    dtd: Any = root.getroottree().docinfo.internalDTD  # Any: the stubs do not know iterentities
    if dtd is not None and (names := [entity.name for entity in dtd.iterentities()]):
        refuse_entities(name, f"its DOCTYPE declares {names[0]!r}")


def refuse_xml(name: object, line: int, reason: str) -> NoReturn:
    if "entity" in reason.lower():
        refuse_entities(f"{name} line {line}", reason)
    raise InputError(f"{name} line {line} is not sound XML ({reason}); repair the file or export it again") from None


def refuse_entities(place: object, reason: str) -> NoReturn:
    raise InputError(
        f"{place} uses XML entities ({reason}), which are refused because they can read other files or grow without "
        f"end; write the characters themselves"
    ) from None


def wrong_root(name: object, given: str, root: str, wanted: str) -> str:
    return f"{name} begins with <{given}> where <{root}> was expected; export it as {wanted}"


def name_of(element: "etree._Element") -> str:
    """The element's name without its namespace; nothing for comments and processing instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def text_of(element: "etree._Element", place: str) -> str:
    """The text of a segment without its inline codes."""
    parts = [element.text or ""]
    for child in element:
        if not isinstance(child.tag, str) and child.tag.__name__ == "Entity":
            refuse_entities(place, f"{child.text}")
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
