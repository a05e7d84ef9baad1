"""Plain text files: each line that is not blank is a segment."""

import re

from qkv.documents.format import TextFormat


class PlainText(TextFormat):
    """Plain text; line ends, blank lines, indentation and tabs stay."""

    def find(self) -> None:
        for match in re.finditer(r"[^\r\n]+", self.text):
            if match[0].strip():
                self.add(match.start(), match.end(), [match[0]])
