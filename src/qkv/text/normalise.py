"""Unicode text in one form."""

import re
import unicodedata

from qkv.errors import InputError

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def normalise(text: str) -> str:
    """NFC, with each run of white space and control characters (newlines too) as one space, and none at the ends."""
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text = CONTROL.sub(" ", text)
    elif "  " not in text and text.strip(" ") == text:  # the plain space is the only printable white space
        return text
    return " ".join(text.split())


def check_unicode(text: str) -> None:
    """Refuse half of a surrogate pair, which a Python string can hold and no file can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start + 1} of {text[:40]!r} is half a surrogate pair, not a Unicode character; "
            "read the text as UTF-8"
        ) from None
