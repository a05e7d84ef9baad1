"""Languages: codes as clients of LibreTranslate write them, a name for each, and which one a text is in."""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from qkv.text.language import pick

UNKNOWN = "und"  # ISO 639: a language that nobody has named
ALIASES = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}  # LibreTranslate's
ENGLISH = (
    "af=Afrikaans am=Amharic an=Aragonese ar=Arabic as=Assamese az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali "
    "br=Breton bs=Bosnian ca=Catalan cs=Czech cy=Welsh da=Danish de=German dz=Dzongkha el=Greek en=English "
    "eo=Esperanto es=Spanish et=Estonian eu=Basque fa=Persian fi=Finnish fo=Faroese fr=French ga=Irish gl=Galician "
    "gu=Gujarati he=Hebrew hi=Hindi hr=Croatian ht=Haitian hu=Hungarian hy=Armenian id=Indonesian is=Icelandic "
    "it=Italian ja=Japanese jv=Javanese ka=Georgian kk=Kazakh km=Khmer kn=Kannada ko=Korean ku=Kurdish ky=Kyrgyz "
    "la=Latin lb=Luxembourgish lo=Lao lt=Lithuanian lv=Latvian mg=Malagasy mk=Macedonian ml=Malayalam mn=Mongolian "
    "mr=Marathi ms=Malay mt=Maltese my=Burmese nb=Bokmål ne=Nepali nl=Dutch nn=Nynorsk no=Norwegian oc=Occitan "
    "or=Odia pa=Punjabi pl=Polish ps=Pashto pt=Portuguese qu=Quechua ro=Romanian ru=Russian rw=Kinyarwanda se=Sami "
    "si=Sinhala sk=Slovak sl=Slovenian sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu th=Thai "
    "tl=Tagalog tr=Turkish ug=Uyghur uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese vo=Volapük wa=Walloon xh=Xhosa "
    "yi=Yiddish zh=Chinese zu=Zulu"
)
LONGEST = 40  # characters of a code, with all that BCP 47 may add to it
NAMES = dict(pair.split("=") for pair in ENGLISH.split())
# Unicode's categories of emoji, of what joins and colours them, and of space.
EMOJI = {"So", "Sk", "Cf", "Mn", "Me", "Zs"}
READ = 2000  # characters that are enough to tell; more only take time
NOBODY = {"confidence": 0.0, "language": "en"}  # what LibreTranslate answers when it cannot tell


def name_of(code: str) -> str:
    """ "German" for "de", "Portuguese (BR)" for "pt-BR", and the code itself where there is no name."""
    base, _, region = code.replace("_", "-").partition("-")
    name = NAMES.get(base.lower())
    return code if name is None else f"{name} ({region})" if region else name


def find(asked: str, codes: Iterable[str]) -> str | None:
    """The one of `codes` that a client means: "EN" is "en", "zh" is "zh-Hans" and the other way round."""
    codes = tuple(codes)
    asked = asked.strip()
    if len(asked) > LONGEST:
        return None  # before anything remembers it
    folded = asked.casefold().replace("_", "-")
    same = [folded, *(other for pair in ALIASES.items() for other in pair if folded in map(str.casefold, pair))]
    for one in same:
        for code in codes:
            if code.casefold().replace("_", "-") == one.casefold():
                return code
    return pick(codes, asked) if asked else None


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
        if code := find(label, codes):
            found.setdefault(code, probability)
    if not found or len(set(found.values())) == 1 < len(found):  # all alike: nothing in the text tells
        return [dict(NOBODY)]
    ranked = [{"confidence": round(100 * p, 1), "language": code} for code, p in found.items()]
    return [one for one in ranked if one["confidence"]] or [dict(NOBODY)]


def is_emoji(text: str) -> bool:
    """Whether there is nothing to translate: only emoji and space, as LibreTranslate has it."""
    kinds = {unicodedata.category(character) for character in text.strip()}
    return "So" in kinds and kinds <= EMOJI
