"""Files of keys and values: JSON, ARB, Java's properties, Apple's strings and YAML. Values are translated; keys,
comments, order and all spelling of the rest stay."""

import json
import re
from collections.abc import Iterator
from typing import Any

from qkv.documents.format import TextFormat
from qkv.documents.segment import Mark, Parts, code_of, replaced
from qkv.errors import InputError
from qkv.text.lines import extra

STRING = r'"(?:[^"\\]|\\.)*+"'
JSON_TOKENS = re.compile(rf"(?P<string>{STRING})(?P<key>\s*:)?|(?P<open>[{{\[])|(?P<close>[}}\]])")
JAVA_LINE = re.compile(  # a key, which ends at = or : or white space, and a value, which may go on in other lines
    r"^[ \t\f]*(?:[#!][^\r\n]*|(?P<key>(?:[^\\\s=:]|\\(?:\r\n|.))++)[ \t\f]*+(?:[=:][ \t\f]*+)?"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*+))$",
    re.MULTILINE,
)
JAVA_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(?:\r\n|[\r\n])[ \t\f]*|([\s\S]))")
APPLE_TOKENS = re.compile(rf"/\*.*?(?:\*/|\Z)|//[^\n]*|(?P<is>=\s*)?(?P<string>{STRING})", re.DOTALL)
APPLE_ESCAPE = re.compile(r"\\(?:[Uu]([0-9A-Fa-f]{4})|([\s\S]))")
BLOCK = re.compile(r"[|>][-+]?[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*\r?\n)*( *)")  # without an indentation of its own
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
SPELLED = {"\\": "\\\\", **{value: f"\\{letter}" for letter, value in LETTERS.items()}}
DEEPEST = 200  # brackets of YAML within one another
SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class Values(TextFormat):
    """What they share: text is unescaped when it is read, and escaped again when it is written."""

    has_accelerators = True

    def value(self, start: int, end: int, text: str) -> bool:
        """Add a value, if it has letters; else it is kept."""
        has_letters = any(letter.isalpha() for letter in text)
        if has_letters:
            self.add(start, end, [text])
        self.kept += not has_letters
        return has_letters


class Json(Values):
    """JSON: every text that is no key."""

    def find(self) -> None:
        try:
            json.loads(self.text)
        except (json.JSONDecodeError, RecursionError) as error:
            where = f" line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise InputError(f"{self.name}{where} is not sound JSON ({str(error)[:60]}); check the file") from None
        self.is_ascii = self.text.isascii() and "\\u" in self.text
        for keys, start, end in strings(self.text):
            self.meet(keys, start, end, json.loads(self.text[start - 1 : end + 1]))

    def meet(self, keys: list[str], start: int, end: int, text: str) -> None:
        self.value(start, end, text)

    def spelled(self, parts: Parts) -> str:
        return json.dumps(code_of(parts), ensure_ascii=self.is_ascii)[1:-1]


def strings(text: str) -> Iterator[tuple[list[str], int, int]]:
    """Each value that is a text: the keys that lead to it, and where its quotes end and begin."""
    keys: list[str] = [""]
    for token in JSON_TOKENS.finditer(text):
        if token["open"]:
            keys.append("")
        elif token["close"]:
            keys.pop()
        elif token["key"]:
            keys[-1] = json.loads(token["string"])
        else:
            yield list(keys), token.start("string") + 1, token.end("string") - 1


class Arb(Json):
    """Application Resource Bundle, as Flutter has it: keys that begin with @ tell something about the others."""

    def meet(self, keys: list[str], start: int, end: int, text: str) -> None:
        if keys[1:] == ["@@locale"] and self.languages.is_source(text):
            self.edits.append((start, end, self.languages.target))
        elif any(key.startswith("@") for key in keys):
            self.kept += 1
        else:
            self.value(start, end, text)


class Properties(Values):
    """Java's properties, whose letters beyond ASCII are escapes, unless the file has such letters in UTF-8."""

    def open(self, data: bytes) -> None:
        self.has_letters = not data.isascii()
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:  # the encoding that Java before 9 reads; escapes are right in it, too
            self.has_letters = False
            self.spans, self.untranslated, self.around, self.edits = [], [], [], []
            self.mark, self.encoding, self.text = b"", "latin-1", data.decode("latin-1")
            return self.find()
        return super().open(data)

    def find(self) -> None:
        for line in JAVA_LINE.finditer(self.text):
            if line["value"]:
                text = JAVA_ESCAPE.sub(unescaped, line["value"])
                text = SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
                self.value(*line.span("value"), text.replace("''", "'") if is_pattern(text) else text)

    def spelled(self, parts: Parts) -> str:
        text = code_of(parts)
        text = text.replace("'", "''") if is_pattern(text) else text
        first = len(text) - len(text.lstrip(" "))  # which would be taken for the space behind the sign
        text = "".join(SPELLED.get(letter, letter) for letter in text)
        text = "\\ " * first + text[first:]
        return text if self.has_letters else ascii_only(text)


def unescaped(match: re.Match[str]) -> str:
    """A letter, or nothing for the end of a line that goes on."""
    return chr(int(match[1], 16)) if match[1] else LETTERS.get(match[2] or "", match[2] or "")


def ascii_only(text: str) -> str:
    """Letters beyond ASCII as escapes of UTF-16."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(chr(number) if number < 128 else f"\\u{number:04x}" for number in numbers)


def is_pattern(text: str) -> bool:
    """One of java.text.MessageFormat, in which an apostrophe is written twice."""
    return re.search(r"\{\d{1,2}[},]", text) is not None


class Strings(Values):
    """Apple's strings: "key" = "value"; with comments."""

    def find(self) -> None:
        for token in APPLE_TOKENS.finditer(self.text):
            if token["is"]:
                start, end = token.start("string") + 1, token.end("string") - 1
                self.value(start, end, APPLE_ESCAPE.sub(unescaped, self.text[start:end]))
        if not self.segments and not self.kept:
            raise InputError(f'{self.name} has no line "key" = "value"; check that it is a strings file')

    def spelled(self, parts: Parts) -> str:
        return "".join({**SPELLED, '"': '\\"'}.get(letter, letter) for letter in code_of(parts))


class Yaml(Values):
    """YAML: every text that is no key; numbers, dates and what has a tag stay."""

    def find(self) -> None:
        yaml = extra("yaml", "PyYAML", "YAML")
        self.yaml: Any = yaml
        self.styles: dict[int, str] = {}  # of the segments that are no blocks: their quotes
        self.folded: dict[int, str] = {}  # of those that are, and one line: their indentation
        is_key, has_tag, depth = False, False, 0
        begins = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
        ends = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
        try:
            for token in yaml.scan(self.text, Loader=yaml.SafeLoader):
                depth += isinstance(token, begins) - isinstance(token, ends)
                if depth > DEEPEST:  # of n of them, PyYAML's scanner needs n * n steps
                    raise InputError(f"{self.name} has more than {DEEPEST} brackets within one another; check the file")
                if isinstance(token, yaml.ScalarToken) and not (is_key or has_tag):
                    self.scalar(token)
                is_key = isinstance(token, yaml.KeyToken)
                has_tag = isinstance(token, yaml.TagToken) or (has_tag and isinstance(token, yaml.AnchorToken))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f" line {mark.line + 1}" if mark else ""
            said = getattr(error, "problem", None) or "it cannot be read"
            raise InputError(f"{self.name}{where} is not sound YAML ({said}); check the file") from None

    def is_text(self, value: str) -> bool:
        """Whether a value without quotes is no number, date, truth value or nothing."""
        tag = self.yaml.resolver.Resolver().resolve(self.yaml.nodes.ScalarNode, value, (True, False))
        return bool(tag == "tag:yaml.org,2002:str")

    def scalar(self, token: Any) -> None:
        """A text; of a block (| and >) each line is a part of it, as it stands."""
        start, end = token.start_mark.index, token.end_mark.index
        if token.style not in ("|", ">"):
            if token.plain and not self.is_text(token.value):
                self.kept += 1
                return
            if self.value(start, end, token.value):
                self.styles[len(self.segments) - 1] = token.style or ""
            return
        self.block(start, end, token)

    def block(self, start: int, end: int, token: Any) -> None:
        """The lines of | are parts of a text; the lines of > are one, but for empty lines between them."""
        head = BLOCK.match(self.text, start, end)
        if head is None or re.search(r"^[ \t]" if token.style == "|" else r"(?m)^[ \t]", token.value):
            self.kept += 1  # it begins with spaces of its own, or has none
            return
        body = self.text[head.end() : end].rstrip()
        if token.style == ">":
            if self.value(head.end(), head.end() + len(body), token.value.rstrip("\n")):
                self.folded[len(self.segments) - 1] = head[1]
        elif any(letter.isalpha() for letter in body):
            breaks = re.finditer(r"[ \t]*\r?\n\s*", body)
            marks = ((*found.span(), Mark(found[0], "gap")) for found in breaks)
            self.add(head.end(), head.end() + len(body), replaced(body, marks))

    def spelled_at(self, number: int, parts: Parts) -> str:
        """In the quotes that it had, or in others if it needs them."""
        text, style = code_of(parts), self.styles.get(number)
        if indent := self.folded.get(number):
            return re.sub("\n+", lambda ends: "\n" * (len(ends[0]) + 1) + indent, text)
        if style is None:
            return text
        if style == "'" and "\n" not in text:
            return "'" + text.replace("'", "''") + "'"
        is_ascii = self.text.isascii() and "\\u" in self.text
        return text if style == "" and self.is_plain(text) else json.dumps(text, ensure_ascii=is_ascii)

    def is_plain(self, text: str) -> bool:
        """Whether a text is read as itself without quotes, in a list as well as after a key."""
        try:
            found = self.yaml.safe_load(f"[{{a: {text}}}]") == [{"a": text}] == self.yaml.safe_load(f"- a: {text}")
        except self.yaml.YAMLError:
            return False
        return bool(found) and "\n" not in text
