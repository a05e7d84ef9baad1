"""Accelerators, the letters by which menus and buttons are reached: &Open, E_xit. They are no part of a word, so a text
is translated without its accelerator, and its translation gets one again."""

import re
from dataclasses import dataclass

from qkv.documents.protect import protected
from qkv.documents.segment import Parts, changed, replaced

# Before a word, or in one that goes on in small letters; "R&D", "&amp;", "file_name" and "a && b" have none.
SIGNS = re.compile(
    r"(?<![\w&])&(?=[^\W_])(?!#?\w{1,10};)|(?<=[^\W_])&(?=[a-z])(?!\w{1,10};)|(?<!\w)_(?=[^\W\d_])(?!\w{0,40}_)"
    r"|(?:(?<=\b[A-Z])|(?<=\b[A-Z][a-z])|(?<=\b[A-Z][a-z]{2})|(?<=\b[A-Z][a-z]{3}))_(?=[a-z])"
)
LATIN = re.compile(r"[A-Za-z0-9À-ɏΑ-ωА-я]")  # letters that keyboards reach by themselves
END = re.compile(r"[\s.:…。：]*$")


@dataclass(frozen=True)
class Accelerator:
    """The sign and the letter behind it."""

    sign: str
    letter: str


def without_accelerator(segment: Parts) -> tuple[Parts, Accelerator | None]:
    """The segment without its accelerator, if it has exactly one; what is protected anyway has none."""
    found: list[Accelerator] = []

    def taken(text: str) -> Parts:
        spans = protected(text)
        signs = [sign for sign in SIGNS.finditer(text) if not any(a <= sign.start() < b for a, b in spans)]
        found.extend(Accelerator(sign[0], text[sign.end()]) for sign in signs)
        return replaced(text, ((*sign.span(), "") for sign in signs))

    plain = changed(segment, taken)
    return (plain, found[0]) if len(found) == 1 else (segment, None)


def with_accelerator(parts: Parts, accelerator: Accelerator | None) -> Parts:
    """Before the same letter, best where a word begins, or else before the first letter; at the end as (&O), where
    there is none that a keyboard reaches, as is the custom in Chinese, Japanese and Korean."""
    if accelerator is None:
        return parts
    letter = re.escape(accelerator.letter)
    for pattern in (rf"(?i)(?<![^\W_]){letter}", f"(?i){letter}", rf"(?<![^\W_]){LATIN.pattern}"):
        for number, part in enumerate(parts):
            if isinstance(part, str) and (place := re.search(pattern, part)):
                new = part[: place.start()] + accelerator.sign + part[place.start() :]
                return [*parts[:number], new, *parts[number + 1 :]]
    number = max((number for number, part in enumerate(parts) if isinstance(part, str)), default=-1)
    if number < 0:
        return parts
    text = str(parts[number])
    at = END.search(text).start()  # type: ignore[union-attr]
    shown = f"({accelerator.sign}{accelerator.letter.upper()})"
    return [*parts[:number], text[:at] + shown + text[at:], *parts[number + 1 :]]
