"""Plain text: lines, spaces, tabs and blank lines stay; the words between them are translated."""

import re
from dataclasses import dataclass, field
from typing import Any

from qkv.documents.format import TextFormat
from qkv.documents.protect import Patterns
from qkv.documents.segment import Translates, code_of
from qkv.documents.translate import translate_segments


@dataclass(frozen=True)
class TranslatedText:
    """A whole text, translated."""

    text: str
    alternatives: list[str] = field(default_factory=list)  # the n best, this one first
    remarks: list[str] = field(default_factory=list)


def translate_text(
    translator: Translates, texts: list[str], *, protect: Patterns = (), **how: Any
) -> list[TranslatedText]:
    """Texts of any lines; placeholders, addresses, code, emoji and matches of `protect` come back byte for byte."""
    done = translate_segments(translator, [[text] for text in texts], protect, **how)
    results = []
    for text, one in zip(texts, done, strict=True):
        ranked = [text] if one.ranked is None else [code_of(parts) for parts in one.ranked]
        results.append(TranslatedText(ranked[0], ranked, one.remarks))
    return results


class PlainText(TextFormat):
    """Plain text; line ends, blank lines, indentation and tabs stay."""

    def find(self) -> None:
        for match in re.finditer(r"[^\r\n]+", self.text):
            if match[0].strip():
                self.add(*match.span(), [match[0]])
