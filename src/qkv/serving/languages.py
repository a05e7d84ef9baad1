"""Language codes as clients of LibreTranslate write them: any case, its aliases, and a name for each."""

from collections.abc import Iterable

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
