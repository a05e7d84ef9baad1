"""PO files, the catalogues of GNU gettext: msgid is the source, msgstr the target."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.language import matches
from qkv.text.lines import read_lines


class _Content(str):
    """polib breaks a text into lines by `splitlines`, which would also cut a message at U+2028 or a form feed."""

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


def read_po(path: Path, source: str | None, target: str | None, skipped: Counter[str]) -> Iterator[Pair]:
    try:
        import polib
    except ImportError:
        raise InputError(f"reading {path} needs polib; install it with: pip install 'qkv[formats]'") from None
    content = _Content("\n".join(read_lines(path)) + "\n")  # with a newline in it, polib takes no text for a path
    try:
        catalogue = polib.pofile(content)
    except OSError as error:
        raise InputError(f"{path} is not a sound PO file ({error}); check it with: msgfmt --check {path}") from None
    for asked, field in ((source, "X-Source-Language"), (target, "Language")):
        code = catalogue.metadata.get(field)
        if asked and code and not matches(asked, code):
            raise InputError(
                f"{path} has the header {field}: {code}, but {asked!r} was asked for; give a file in that language or "
                f"ask for {code!r}"
            )
    for entry in catalogue:
        if not entry.translated():
            skipped["messages without a finished translation"] += 1
            continue
        place = f"{path} line {entry.linenum}"
        forms = entry.msgstr_plural
        if not forms:
            yield Pair(entry.msgid, entry.msgstr, place)
            continue
        yield Pair(entry.msgid, forms[min(forms)], place)
        if entry.msgid_plural:
            yield Pair(entry.msgid_plural, forms[max(forms)], place)
