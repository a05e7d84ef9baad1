"""Finds what must come back byte for byte: placeholders, addresses, tags, code, keys, options and emoji.

Each pattern is a row of classes that share no character, or is bounded in its length, so that a text of n characters is
searched in time that grows with n, whatever it holds.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from qkv.documents.segment import Mark, Parts, replaced
from qkv.errors import InputError

Patterns = tuple[re.Pattern[str], ...]  # what a user wants kept besides

# Code points that are drawn as pictures (Unicode's emoji-data.txt, "Extended_Pictographic", and the flags), by blocks.
PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
JOINERS = "\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"  # within one picture: skin and hair, sex, flags of regions
BRACED = r"\{[^{}]{0,200}(?:\{[^{}]{0,200}\}[^{}]{0,200}){0,20}\}"  # {x}, {{x}}, {n, plural, one {#} other {#}}
CONVERSION = r"[-+0#']{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcCsSrabpn@]"
HELD = ("code", "kbd", "samp", "var")  # elements whose text is a program's or a keyboard's
MODIFIER = "(?:Ctrl|Control|Strg|Alt|AltGr|Shift|Cmd|Command|Option|Opt|Meta|Super|Win|Fn)"
KEY = "(?:F[1-9][0-9]?|[A-Z][a-z]{1,9}|[A-Za-z0-9]|[-+*/=.,;<>?])"
BEGIN = r"(?<![\w-])"  # where a word of a command may begin
PATTERNS = {
    "address": r"(?:(?:https?|ftp|file)://|mailto:|\bwww\.)[^\s<>\"`{}|\\^]+",
    "e-mail": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}",
    "code": r"`[^`\n]{1,200}`|(?<![\w.])[A-Za-z_][\w.]{0,80}\(\)",
    "braces": rf"[$#%@]?{BRACED}|\[\[[^\[\]\n]{{1,200}}\]\]",
    "held": rf"<(?P<held>{'|'.join(HELD)})\b[^<>\n]{{0,100}}>[^<>\n]{{0,200}}</(?P=held)>",
    "key": rf"(?<![\w+])(?:{MODIFIER} ?\+ ?){{1,4}}{KEY}(?!\w)|(?<![\w-])F(?:[1-9]|1[0-9]|2[0-4])(?![\w-])",
    "option": (  # "-I" at the beginning of a line is rather what a person says
        rf"{BEGIN}--[A-Za-z]\w{{0,40}}+(?:-\w{{1,40}}+){{0,8}}+(?!-)(?:=[^\s\"'<>(),;»]{{0,80}}[^\s\"'<>(),;»:.!?])?"
        rf"|{BEGIN}-[a-z](?![\w'’-])|(?<=[\s(\[,/|\"'«“„])-[A-Z](?![\w'’-])"
    ),
    "tag": r"</?[A-Za-z][^<>\n]{0,300}>|<[!?%][^<>\n]{1,300}>|&(?:[A-Za-z]{2,10}|#\d{1,7}|#x[0-9A-Fa-f]{1,6});",
    "variable": r"\$\([A-Za-z_]\w{0,60}\)|\$t\([^()\n]{1,100}\)|(?<![\w$])\$[A-Za-z_]\w{0,60}|%[A-Z_][A-Z0-9_]{2,40}%?",
    "printf": (  # "5%discount" is none: what could be a number and a word has to end, or not to follow a number
        rf"%(?:\(\w{{1,64}}\)|\d{{1,2}}\$){CONVERSION}|%{CONVERSION}(?![A-Za-z])|(?<!\d)%(?:%|{CONVERSION}|L?\d{{1,2}})"
        r"|%[-+0#']{0,4}\d{0,4}<PRI\w{2,12}>"  # whose letter is known to C's compiler alone
    ),
    "emoji": rf"(?<![\w:]):[a-z0-9_+-]{{2,40}}:(?![\w:])|[0-9#*]\ufe0f?\u20e3|[{PICTURES}][{PICTURES}{JOINERS}]*",
}
SEARCH = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS.values()))
ADDRESS = re.compile(PATTERNS["address"])
NAME = re.compile(r"<(/?)([A-Za-z][\w:.-]*)")
DEEPEST = 20  # tags that wait for their ends; more are not looked through
AFTER = ".,;:!?'*_~…»”’"  # ends of the sentence that an address stands in, rather than of the address


def protected(text: str) -> list[tuple[int, int]]:
    """Where each thing to protect begins and ends; what touches is one, but for tags."""
    found: list[tuple[int, int]] = []
    for match in SEARCH.finditer(text):
        start, end = match.start(), match.end()
        if ADDRESS.match(match[0]):
            end = start + len(bare_address(match[0]))
        if found and found[-1][1] == start and "<" not in (text[start], text[found[-1][0]]):
            start = found.pop()[0]
        found.append((start, end))
    return found


def bare_address(address: str) -> str:
    """Without the full stop that ends its sentence, and without a bracket that was opened before it."""
    surplus = address.count(")") - address.count("(")
    end = len(address)
    while end and (address[end - 1] in AFTER or (address[end - 1] == ")" and surplus > 0)):
        end -= 1
        surplus -= address[end] == ")"
    return address[:end]


def compiled(patterns: Sequence[str]) -> Patterns:
    """A user's own regular expressions; how long they take is the user's own business."""
    found = []
    for pattern in patterns:
        try:
            found.append(re.compile(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            said = f"--protect {pattern!r} is not a regular expression ({error})"
            raise InputError(f"{said}; write it as Python's re does, in quotes") from None
    return tuple(found)


def set_aside(text: str, also: Patterns) -> Parts:
    """The text with a mark for each match of a user's pattern, and of what is protected anyway and overlaps with it."""
    own = [(*match.span(), True) for pattern in also for match in pattern.finditer(text) if match[0]]
    spans = sorted(own + [(*span, False) for span in protected(text)]) if own else []
    joined: list[tuple[int, int, bool]] = []  # those that overlap are one, a user's own if any of them is
    for start, end, is_own in spans:
        if joined and start < joined[-1][1]:
            first, last, was_own = joined.pop()
            start, end, is_own = first, max(last, end), was_own or is_own
        joined.append((start, end, is_own))
    kept = (span for *span, is_own in joined if is_own)
    return replaced(text, ((start, end, Mark(text[start:end], "word", is_text=True)) for start, end in kept))


def protect(text: str) -> Parts:
    """The text with a mark for each thing that must survive: code_of(protect(text)) == text. Two tags that open and
    close something are a pair; any other thing, such as <file>, is a word."""
    spans = protected(text)
    marks = [Mark(text[start:end], "word", is_text=True) for start, end in spans]
    waiting: list[tuple[int, str]] = []
    for number, mark in enumerate(marks):
        tag = NAME.match(mark.code)
        if tag and not tag[1]:
            waiting.append((number, tag[2]))
        elif tag and tag[2] in {name for _, name in waiting[-DEEPEST:]}:
            while waiting[-1][1] != tag[2]:  # those in between have no end
                waiting.pop()
            first, pair = waiting.pop()
            marks[first] = replace(marks[first], kind="open", pair=pair)
            marks[number] = replace(mark, kind="close", pair=pair)
    return replaced(text, ((*span, mark) for span, mark in zip(spans, marks, strict=True)))
