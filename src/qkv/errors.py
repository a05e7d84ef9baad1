"""What a person did wrong, said in one sentence."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input: one sentence that says what was given, what was expected and what to do.

    The command line prints the sentence and exits with 1; nothing else of the program is shown.

    >>> try:
    ...     qkv.load("nowhere")
    ... except qkv.InputError as error:
    ...     print(error)
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the closest known one, or all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
