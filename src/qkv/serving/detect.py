"""Which language a text is in: py3langid's ranking, cut to the languages that the server knows."""

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from qkv.serving.languages import find

EMOJI = {
    "So",
    "Sk",
    "Cf",
    "Mn",
    "Me",
    "Zs",
}  # Unicode categories of emoji, of what joins and colours them, and of space
READ = 2000  # characters that are enough to tell; more only take time
NOBODY = {"confidence": 0.0, "language": "en"}  # what LibreTranslate answers when it cannot tell


@cache
def identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def detect(text: str, codes: Sequence[str]) -> list[dict[str, Any]]:
    """The languages of `codes` that the text may be in, likeliest first; confidence is in per cent, among all 140.

    A text in a language that is not among `codes` therefore gets one of them with a confidence near 0. Differs from
    LibreTranslate, which spreads all its confidence over the languages that it has.
    """
    if not any(character.isalpha() for character in text):
        return [dict(NOBODY)]
    found: dict[str, float] = {}
    for label, probability in identifier().rank(text[:READ]):
        code = find(label, codes)
        if code is not None:
            found.setdefault(code, probability)
    if not found or len(set(found.values())) == 1 < len(found):  # all alike: nothing in the text tells
        return [dict(NOBODY)]
    ranked = [{"confidence": round(100 * p, 1), "language": code} for code, p in found.items()]
    return [one for one in ranked if one["confidence"]] or [dict(NOBODY)]


def is_emoji(text: str) -> bool:
    """Whether there is nothing to translate: only emoji and space, as LibreTranslate has it."""
    kinds = {unicodedata.category(character) for character in text.strip()}
    return "So" in kinds and kinds <= EMOJI
