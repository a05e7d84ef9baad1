"""PO, the catalogues of GNU gettext: empty msgstr are filled; all else stays."""

import re
from dataclasses import dataclass, field
from itertools import groupby

from qkv.documents.format import Origin, TextFormat
from qkv.documents.segment import Parts, code_of
from qkv.errors import InputError

LINE = re.compile(r'(?:(msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*)?"((?:[^"\\]|\\.)*+)"\s*$')
CHARSET = re.compile(r"charset=([\w.-]+)")
ASCII = ("ASCII", "US-ASCII", "CHARSET")  # the last is what xgettext writes into a template
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
SPELLED = str.maketrans({"\\": "\\\\", '"': '\\"', **{value: f"\\{letter}" for letter, value in ESCAPES.items()}})


@dataclass
class Value:
    """A msgid, msgstr and so on: its text, and where its strings begin and end in the file."""

    text: str
    start: int
    end: int


# Above an entry, for a person who reads the file.
TOLD: dict[Origin, str] = {
    "machine": "# Machine translation by qkv, which nobody has reviewed yet.",
    "exact-match": "# Exact match of {of}.",
}


@dataclass
class Message:
    start: int = -1  # where its first line begins,
    body: int = -1  # the first one that is not a comment, or is about an earlier msgid,
    flag: int = -1  # and its first flag
    flags: set[str] = field(default_factory=set)
    values: dict[str, Value] = field(default_factory=dict)
    forms: list[Value] = field(default_factory=list)  # msgstr, or msgstr[0], msgstr[1] ...

    def meet(self, line: str, at: int) -> None:
        """A line of it; a blank one parts it from comments that are not its own."""
        bare = line.strip()
        if not bare:
            self.start = self.start if self.body >= 0 else -1
            return
        self.start = at if self.start < 0 else self.start
        if self.body < 0 and (bare.startswith("#|") or not bare.startswith("#")):
            self.body = at
        if bare.startswith("#,"):
            self.flags |= {flag.strip() for flag in bare[2:].split(",")}
            if self.flag < 0 and bare != "#,":
                self.flag = at + line.index(bare[2:].lstrip(), 2)


class Po(TextFormat):
    """GNU gettext's PO; messages that are translated, fuzzy or obsolete are kept. New ones are fuzzy: nobody has
    reviewed them, and msgfmt leaves them out until somebody has."""

    has_accelerators = True

    def find(self) -> None:
        self.owners: list[Message] = []  # of the segments
        self.end_of_line = "\r\n" if "\r\n" in self.text else "\n"
        entries = self.entries()
        if not any(entry.forms for entry in entries):
            raise InputError(f"{self.name} has no message (msgid and msgstr); check that it is a PO file")
        fuzzy = 0
        for entry in entries:
            source = entry.values.get("msgid")
            if source is None or not entry.forms:
                continue
            if not source.text:
                self.header(entry.forms[0])
            elif "fuzzy" in entry.flags:
                fuzzy += 1
                self.kept += 1
            else:
                self.fill(entry, source)
        if fuzzy:
            self.remarks.append(f"messages that are marked as fuzzy, and were kept: {fuzzy}")

    def header(self, header: Value) -> None:
        found = re.findall(r"^([\w-]+):(.*)$", header.text, re.MULTILINE)
        fields = {name: value.strip(" \t") for name, value in found}
        charset = CHARSET.search(self.text, header.start, header.end)
        encoding = charset[1].upper().replace("_", "-") if charset else "UTF-8"
        if charset and encoding in ASCII:  # which translations are not
            self.edits.append((*charset.span(1), "UTF-8"))
        elif encoding not in ("UTF-8", "UTF8"):
            raise InputError(f"{self.name} is in {charset and charset[1]}; convert it with: msgconv --to-code=UTF-8")
        for field_name, side in (("Language", "target"), ("X-Source-Language", "source")):
            self.languages.check(self.name, f"the header {field_name}:", fields.get(field_name), side)

    def fill(self, entry: Message, source: Value) -> None:
        """Form 0 is the singular, unless the language has one form only; all others are plural."""
        plural = entry.values.get("msgid_plural", source)
        if plural is source and entry.forms[0].text:
            self.known[source.text] = [entry.forms[0].text]
        for number, form in enumerate(entry.forms):
            text = (source if number == 0 and len(entry.forms) > 1 else plural).text
            if form.text:
                self.kept += 1
            else:
                self.apart |= {len(self.segments)} if plural is not source else set()
                self.owners.append(entry)
                self.add(form.start, form.end, [text], self.spelled([text]))

    def marked(self, origins: list[Origin]) -> list[tuple[int, int, str]]:
        """A comment for each entry, and the flag if any of its forms is a machine's."""
        edits = []
        for _, several in groupby(enumerate(origins), lambda one: id(self.owners[one[0]])):
            numbers, found = zip(*several, strict=True)
            owner = self.owners[numbers[0]]
            origin: Origin = "machine" if "machine" in found else max(found)
            if not origin:
                continue
            told = TOLD[origin].format(of=self.reused.get(numbers[0], ""))
            edits.append((owner.start, owner.start, told + self.end_of_line))
            if origin == "machine" and owner.flag >= 0:
                edits.append((owner.flag, owner.flag, "fuzzy, "))
            elif origin == "machine":
                edits.append((owner.body, owner.body, "#, fuzzy" + self.end_of_line))
        return edits

    def entries(self) -> list[Message]:
        """By a blank line, a comment after a msgstr, or a msgid after a msgstr, a new entry begins."""
        found = [Message()]
        value: Value | None = None
        at = 0
        for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", self.text), start=1):
            bare = line.strip()
            start, at = at, at + len(line)
            match = LINE.match(bare)
            name = (match[1] or "") if match else ""  # none in a line that goes on with a value
            if found[-1].forms and (not bare or bare.startswith("#") or (name and not name.startswith("msgstr"))):
                found.append(Message())
            found[-1].meet(line, start)
            if not bare or bare.startswith("#"):
                value = None
                continue
            if match is None or not (name or value):
                raise InputError(
                    f"{self.name} line {number} is not sound PO ({bare[:40]!r}); check it with: msgfmt --check"
                )
            text = re.sub(r"\\(.)", lambda escaped: ESCAPES.get(escaped[1], escaped[1]), match[2])
            end = start + len(line.rstrip())
            if value is not None and not name:
                value.text, value.end = value.text + text, end
                continue
            value = Value(text, start + line.index('"'), end)
            if name.startswith("msgstr"):
                found[-1].forms.append(value)
            else:
                found[-1].values[name] = value
        return found

    def spelled(self, parts: Parts) -> str:
        """One string, or if there are lines in the text one for each, after an empty one, as gettext writes them."""
        lines = re.findall(r"[^\n]*\n|[^\n]+", code_of(parts))
        strings = [f'"{line.translate(SPELLED)}"' for line in lines]
        return (self.end_of_line.join(['""', *strings])) if len(lines) > 1 else "".join(strings) or '""'
