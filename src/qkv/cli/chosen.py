"""Which translator is meant, by the languages: the folder `model`, or one that comes with qkv."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.bundled import translators
from qkv.cli.lines import is_path
from qkv.errors import InputError
from qkv.folder import read_config
from qkv.opening import may_translate
from qkv.text.detection import detect, find
from qkv.text.language import from_name

if TYPE_CHECKING:
    from qkv.decoding import Translator

SURE = 50  # per cent among all languages: a text in another one is asked about


def chosen(text: tuple[str, ...], source: str, target: str) -> Path:
    """The folder that translates between two languages, of which either may be left open: `model`, where it is there
    and does, or else a translator that comes with qkv."""
    own, bundled = Path("model"), translators()
    if not (source or target):
        if own.exists() or not bundled:
            return own
        known = ", ".join(sorted({name.partition("-")[2] for name in bundled}))
        raise InputError(f"there is no folder {own} here; train one, name one by --model, or give --to: {known}")
    if own.is_dir() and may_translate(own) and answers(read_config(own), source, target):
        return own
    found = {name: dict(zip(("source", "target"), name.split("-"), strict=True)) for name in bundled}
    found = {name: about for name, about in found.items() if answers(about, source, target)}
    asked = " ".join(f"--{flag} {code}" for flag, code in (("from", source), ("to", target)) if code)
    if not found:
        raise InputError(
            f"no translator here is for {asked}; those that come with qkv are {', '.join(bundled) or 'none'}; "
            "name your own by --model"
        )
    told = language_of(text, [about["source"] for about in found.values()]) if len(found) > 1 and target else ""
    found = {name: about for name, about in found.items() if answers(about, told, "")}
    if len(found) > 1:
        raise InputError(f"{asked} may be any of {', '.join(found)}; give --from and --to")
    return bundled[next(iter(found))]


def answers(about: Mapping[str, Any], source: str, target: str) -> bool:
    """Whether a translator has these languages; one that was never told its own has any."""
    known = ((source, about.get("source")), (target, about.get("target")))
    return all(find(asked, [code]) is not None for asked, code in known if asked and code)


def language_of(text: tuple[str, ...], codes: list[str]) -> str:
    """The one of `codes` that a text is in, by the name of its file or by its words; nothing if neither tells."""
    if not text or is_path(text):
        return find(from_name(Path(text[0])) or "", codes) or "" if text else ""
    try:
        (best, *_) = detect(" ".join(text), codes)
    except ImportError:  # of what tells languages apart, which comes with the server
        return ""
    return str(best["language"]) if best["confidence"] > SURE else ""


def check_languages(translator: "Translator", model: Path, source: str, target: str) -> None:
    if not answers(translator.about, source, target):
        about = translator.about
        raise InputError(
            f"{model} translates from {about.get('source')} to {about.get('target')}, "
            f"not {' '.join(f'{word} {code}' for word, code in (('from', source), ('to', target)) if code)}; "
            "leave --model out, or give the folder of another"
        )
