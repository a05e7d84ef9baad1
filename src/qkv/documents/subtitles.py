"""Subtitles, SubRip (srt) and WebVTT (vtt): the words of each cue are translated; numbers, times and styles stay."""

import html
import re

from qkv.documents.format import TextFormat
from qkv.documents.segment import Kind, Mark, Parts, changed, replaced
from qkv.errors import InputError

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
CODE = re.compile(r"<(/?)([A-Za-z]*)[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")  # <i>, <v Ann>, <00:01.500>, {\an8}
TIME = re.compile(r"\s*-?\d[\d\s:.,]*-->")
SPEAKER = re.compile(r"\s*(?:-|–|—|>>)\s*")  # before what one of several people says


class Subtitles(TextFormat):
    """SubRip: a cue's lines are one sentence unless each is another person's; line ends stay."""

    def find(self) -> None:
        cue: list[tuple[int, int]] | None = None  # the lines of the cue that is being read
        found = False
        for match in LINE.finditer(self.text):
            line = match[0].rstrip("\r\n")
            if "-->" in line and (cue is None or TIME.match(line)):
                if cue and self.text[slice(*cue[-1])].strip().isdigit():  # the number of the cue that begins here
                    cue.pop()
                self.cue(cue or [])
                cue, found = [], True
            elif not line.strip():
                self.cue(cue or [])
                cue = None
            elif cue is not None:
                cue.append((match.start(), match.start() + len(line)))
        self.cue(cue or [])
        if not found:
            raise InputError(f"{self.name} has no line with a time (00:01 --> 00:02); check that it holds subtitles")

    def cue(self, lines: list[tuple[int, int]]) -> None:
        """One segment; the end of a line parts two speakers, or else goes where it falls in the translation."""
        if not lines:
            return
        parts: Parts = []
        last = 0
        for number, (start, end) in enumerate(lines):
            dash = SPEAKER.match(CODE.sub("", self.text[start:end]))
            if number:
                parts.append(Mark(self.text[last:start], "gap" if dash else "space"))
            if dash and (own := SPEAKER.match(self.text, start, end)):
                parts.append(Mark(own[0], "gap"))
                start = own.end()
            parts += self.inline(self.text[start:end])
            last = end
        self.add(lines[0][0], last, parts)

    def inline(self, text: str) -> Parts:
        """A line with its codes as marks."""
        marks = []
        for match in CODE.finditer(text):
            kind: Kind = "alone" if not match[2] else "close" if match[1] else "open"
            marks.append((*match.span(), Mark(match[0], kind, match[2] or "")))
        return changed(replaced(text, marks), lambda part: [html.unescape(part) if self.is_markup else part])


class WebVtt(Subtitles):
    """WebVTT: like SubRip, with entities; notes, styles and regions stay."""

    is_markup = True
