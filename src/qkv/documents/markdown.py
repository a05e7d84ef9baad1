"""Markdown: headings, paragraphs, lists and tables are translated; code, addresses and front matter stay."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from qkv.documents.format import TextFormat
from qkv.documents.protect import HELD
from qkv.documents.segment import Kind, Mark, replaced
from qkv.text.lines import extra

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

FRONT = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
WIDTHS = {"em": 1, "strong": 2, "s": 2}  # how many characters mark each end
MATH = re.compile(r"(?<![\\$])\$\$[^$]{1,2000}\$\$|(?<![\\$\w])\$(?=\S)[^$\n`]{0,200}[^$\s`\\]\$(?![\d$])")  # pandoc's
FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,60}\]")
LEAD = re.compile(r"\[[ xX]\] +|\[\^[^\]\s]{1,60}\]: *")  # of a task, of a footnote
HTML = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
Rule = Callable[["StateInline", bool], bool]
Ranges = list[tuple[int, int, Kind, str]]  # start, end, kind, pair


class Markdown(TextFormat):
    """CommonMark with tables and strike-through; the end of a line goes where it falls in the translation."""

    def find(self) -> None:
        front = FRONT.match(self.text)
        begin = front.end() if front else 0
        self.starts = [begin, *(match.end() for match in re.compile("\r\n?|\n").finditer(self.text, begin))]
        parser = located_parser()
        cursor = (-1, 0)  # in a row of a table: its line, and where its last cell ended
        lost = 0
        for token in parser.parse(self.text[begin:]):
            if token.type == "inline" and token.map and token.content.strip():
                line = token.map[0]
                after = cursor[1] if cursor[0] == line else 0
                places = self.places(token.content, line, after)
                if places is None:
                    lost += 1
                    continue
                cursor = (line, places[-1] + len(token.content.rpartition("\n")[2]))
                self.block(token, places)
        if lost:
            self.remarks.append(f"blocks kept because of an escaped | or a tab in them: {lost}")

    def places(self, content: str, line: int, after: int) -> list[int] | None:
        """Where each line of a block's content begins in the file; None if it is not there to the letter."""
        found = []
        for number, part in enumerate(content.split("\n"), start=line):
            stop = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
            start = self.text.find(part, max(after, self.starts[number]), stop)
            if start < 0:
                return None
            found.append(start)
        return found

    def block(self, token: "Token", places: list[int]) -> None:
        """One segment: text, and marks for what the parser found in it."""
        content = token.content
        offsets = [0, *(match.end() for match in re.finditer("\n", content))]

        def place(at: int) -> int:
            line = bisect_right(offsets, at) - 1
            return places[line] + at - offsets[line]

        def marks() -> Iterator[tuple[int, int, Mark]]:
            at, found = 0, marks_of(token.children or [], content)
            for start, end, kind, pair in sorted(found, key=lambda one: (one[0], -one[1])):
                if start >= at:  # else it lies in code, or in a link that stays as it is
                    yield start, end, Mark(self.text[place(start) : place(end)], kind, pair)
                    at = end

        self.add(places[0], place(len(content)), replaced(content, marks()))


def located_parser() -> "MarkdownIt":
    """A parser whose inline tokens know where in their block's content they begin and end."""
    library = extra("markdown_it", "markdown-it-py", "Markdown")
    parser: MarkdownIt = library.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.disable(["text_join", "fragments_join"], ignoreInvalid=True)
    for rule in parser.inline.ruler.__rules__:
        rule.fn = located(rule.fn)
    return parser


def located(rule: Rule) -> Rule:
    """The rule, with the place of each token that it makes written into the token."""

    def run(state: "StateInline", silent: bool) -> bool:
        start, first = state.pos, len(state.tokens) + bool(state.pending)  # text that waits becomes a token first
        done = rule(state, silent)
        if done and not silent:
            is_link = state.src[start] == "[" and len(state.tokens) > first and state.tokens[-1].type == "link_close"
            label = state.md.helpers.parseLinkLabel(state, start, True) if is_link else -1
            at = start
            for token in state.tokens[first:]:
                if "start" not in token.meta:
                    token.meta |= {"start": at, "end": state.pos, "label": label}
                    at += len(token.content) if token.type == "text" else 0  # each of several delimiters
        return done

    return run


def marks_of(tokens: list["Token"], content: str) -> Ranges:
    """What is no text of a block, as ranges of its content."""
    found: Ranges = [(*match.span(), "alone", "") for match in FOOTNOTE.finditer(content)]
    if lead := LEAD.match(content):
        found = [(*lead.span(), "gap", ""), *(one for one in found if one[0] >= lead.end())]
    found += [(*match.span(), "word", "") for match in MATH.finditer(content)]
    held = dict[str, int]()  # where an element began that is kept with all that is in it
    for token in tokens:
        start, end = token.meta.get("start", 0), token.meta.get("end", 0)
        if token.type in ("code_inline", "text_special"):
            found.append((start, end, "word", ""))
        elif token.type == "html_inline":
            tag = HTML.match(token.content)
            name = tag[2].lower() if tag else ""
            is_alone = not name or token.content.endswith("/>") or name in ("img", "wbr")
            kind: Kind = "gap" if name == "br" else "alone" if is_alone else "close" if tag and tag[1] else "open"
            if name in HELD and kind == "open":
                held[name] = start
            elif name in held and kind == "close":
                found.append((held.pop(name), end, "word", ""))
                continue
            found.append((start, end, kind, name))
        elif token.type == "image":
            label = start + 2 + len(token.content)
            found += [(start, start + 2, "open", "image"), (label, end, "close", "image")]
        elif token.type == "link_open":
            label = token.meta["label"]
            if label < 0 or content[label:end] in ("]", "][]"):  # its text is the name of its address
                found.append((start, end, "word", ""))
            else:
                found += [(start, start + 1, "open", "link"), (label, end, "close", "link")]
        elif token.tag in WIDTHS and token.nesting:
            start -= token.type == "strong_open"  # its token is the second of two
            kind = "open" if token.nesting > 0 else "close"
            found.append((start, start + WIDTHS[token.tag], kind, token.tag))
    for end_of_line in re.finditer(r" *\\?\n *", content):  # one that breaks in the page, too, is a gap
        breaks = end_of_line[0].startswith("  ") or "\\" in end_of_line[0]
        found.append((*end_of_line.span(), "gap" if breaks else "space", ""))
    return found
