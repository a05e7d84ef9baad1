"""One text or several: what people give to a model."""

from collections.abc import Iterable
from typing import Any

from qkv.errors import InputError


def several(texts: Any) -> list[str]:
    """The texts, of one alone just this; what is no text is refused by its number."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise InputError(f"{texts!r:.60} ({type(texts).__name__}) is no text; give a str, or a list of them")
    found = list(texts)
    for number, text in enumerate(found, start=1):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {text!r:.60} ({type(text).__name__}); give a list of str")
    return found
