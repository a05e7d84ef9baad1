"""Language codes: which code names which language, and what a file's name says."""

import re
from functools import lru_cache
from pathlib import Path

ISO_639_1 = (  # the two-letter codes
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo "
    "es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka "
    "kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng "
    "nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su "
    "sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
TWO_LETTERS = frozenset(ISO_639_1.split())
SUBTAGS = re.compile(r"(-[a-z0-9]{2,8})*")  # the region, script and so on of "en-US" and "zh-Hans-CN"
# Three letters that end a corpus file's name and are no language there.
NO_LANGUAGE = "bak bin bpe dat hyp inp log new old out raw ref spm src tgt tmp tok trg txt xml zip"


def is_code(text: str) -> bool:
    """A two-letter code, with or without a region: "en", "pt-BR", "zh_Hans"."""
    text = _plain(text)
    return text[:2] in TWO_LETTERS and SUBTAGS.fullmatch(text, 2) is not None


def matches(asked: str, code: str) -> bool:
    """Asked for "en", the codes "en", "EN" and "en-US" will do; asked for "en-US", "en" will not."""
    asked, code = _plain(asked), _plain(code)
    return code == asked or code.startswith(asked + "-")


@lru_cache(maxsize=1024)  # readers ask the same for every pair
def pick(codes: tuple[str, ...], asked: str) -> str | None:
    """The code that answers best: the asked one itself, or else the first with a region."""
    answers = [code for code in codes if matches(asked, code)]
    return min(answers, key=lambda code: _plain(code) != _plain(asked), default=None)


def without_regions(source: str, target: str) -> tuple[str, str]:
    """Two codes by which files with other regions can be read too, unless it is the region that tells them apart."""
    languages = (_plain(source).split("-")[0], _plain(target).split("-")[0])
    return (source, target) if languages[0] == languages[1] else languages


def is_language(text: str) -> bool:
    """A code of two letters, or of three that are not the usual end of a corpus file's name."""
    three = re.match("[a-z]{3}(?![a-z])", _plain(text))
    is_three = three and three[0] not in NO_LANGUAGE.split() and SUBTAGS.fullmatch(_plain(text), 3)
    return bool(is_code(text) or is_three)


def from_name(path: Path) -> str | None:
    """The language that ends the name of a plain file, or is all of it: train.en.gz, train.en.txt, en.txt -> "en"."""
    name = re.sub(r"\.gz$", "", path.name, flags=re.IGNORECASE)
    parts = re.sub(r"\.txt$", "", name, flags=re.IGNORECASE).split(".")
    is_named = len(parts) > 1 or parts[0] != name  # a file "de" may be anything
    return parts[-1] if is_named and is_language(parts[-1]) else None


def _plain(code: str) -> str:
    return code.strip().casefold().replace("_", "-")


# Languages written without spaces between words: pieces of a text are joined with none.
UNSPACED = frozenset(["zh", "ja", "th", "lo", "km", "my", "bo", "dz"])


def is_unspaced(code: str) -> bool:
    return _plain(code).split("-")[0] in UNSPACED
