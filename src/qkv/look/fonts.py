"""Labels that can be read in any script: which installed fonts draw them, and what no font can draw spelled out."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache

from qkv.errors import InputError

FIRST = "DejaVu Sans"  # matplotlib carries it, so it is always there
MARKS = str.maketrans({"\t": "⇥", "\n": "↵", "\r": "↤"})
# Fonts that answer to Latin letters with other signs (TeX's, STIX's pieces) or to everything with a box (Last Resort).
DECEPTIVE = ("cmb10", "cmex", "cmmi", "cmr10", "cmss", "cmsy", "cmti", "cmtt", "STIXNonUni", "STIXSiz", "Last Resort")
# Unicode's categories of what leaves no ink of its own: formatting, combining marks, spaces.
INKLESS = {"Cc", "Cf", "Mn", "Zl", "Zp", "Zs"}


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("pictures need matplotlib, which is not installed; pip install 'qkv[look]'") from None


def fit(texts: Sequence[str], *, spell: bool, longest: int = 28) -> tuple[list[str], list[str]]:
    """The texts as they can be drawn, and the font families to draw them with, the best first.

    With `spell`, characters that no installed font covers are written like U+4E2D. A file that keeps text as text goes
    without: its viewer has fonts of its own. Texts of more than `longest` characters end in an ellipsis.
    """
    shown = [visible(text) for text in texts]
    families = choose("".join(shown))
    if spell:
        covered = frozenset().union(*map(coverage, families))
        shown = [spell_out(text, lambda c: ord(c) not in covered) for text in shown]
    else:
        families = [*families, "sans-serif"]
    return [text if len(text) <= longest else text[: longest - 1] + "…" for text in shown], families


def visible(token: str) -> str:
    """A token as a person can read it: " dog" and "▁dog" are "dog", a bare space is "␣", a tab "⇥", a line break "↵".

    One space in front is how sub-words say that a word begins, so it goes unmarked. Any further space is marked where
    it would not be seen, at either end. Characters that leave no ink or that XML cannot hold are spelled out.
    """
    token = " " + token[1:] if token.startswith("▁") else token  # a space, as Tokenizer.pieces shows it
    text = token[1:] if token.startswith(" ") and token.strip(" ") else token
    core = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    text = ("␣" * before + core + "␣" * (len(text) - before - len(core))).translate(MARKS)
    is_inkless = all(unicodedata.category(c) in INKLESS for c in text)
    return spell_out(text, lambda c: is_inkless or is_unprintable(c))


def is_unprintable(character: str) -> bool:
    """Odd spaces, and what XML 1.0 does not take: controls, halves of surrogate pairs, Unicode's noncharacters."""
    code, category = ord(character), unicodedata.category(character)
    if category == "Zs":
        return character != " "
    return category in {"Cc", "Cs", "Zl", "Zp"} or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def spell_out(text: str, which: Callable[[str], bool]) -> str:
    """The characters that `which` picks, by number and set apart: "a中" becomes "a U+4E2D"."""
    shown = ""
    for before, character in zip(f" {text}", text, strict=False):
        apart = (which(character) or which(before)) and before != " " != character
        shown += (" " if apart else "") + (f"U+{ord(character):04X}" if which(character) else character)
    return shown


def choose(text: Iterable[str]) -> list[str]:
    """DejaVu, then as few other installed families as cover the rest of the characters, sans-serif ones first."""
    missing = {ord(character) for character in text} - coverage(FIRST)
    families = [FIRST]
    for family in installed():
        if not missing:
            break
        if missing & coverage(family):
            families.append(family)
            missing -= coverage(family)
    return families


@cache
def installed() -> dict[str, str]:
    """The file of the upright, regular face of each family, or of the nearest to it; sans-serif families first."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    def plainness(font: font_manager.FontEntry) -> tuple[bool, bool]:
        return font.style == "normal", str(font.weight) in {"400", "normal", "regular"}

    manager = font_manager.fontManager
    known = {font.name for font in manager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}):
        with suppress(OSError, RuntimeError):  # a font that cannot be read
            if FT2Font(path).family_name not in known:  # installed since matplotlib made its list
                manager.addfont(path)
    honest = [font for font in manager.ttflist if not font.name.startswith(DECEPTIVE)]
    files = {font.name: font.fname for font in sorted(honest, key=plainness)}
    return dict(sorted(files.items(), key=lambda one: ("Noto Sans" not in one[0], "Sans" not in one[0], one[0])))


@cache
def coverage(family: str) -> frozenset[int]:
    """The characters that a family has glyphs for; none if its file cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(installed()[family]).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
