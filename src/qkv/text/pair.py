"""A sentence and its translation, and the place where they stand."""

from typing import NamedTuple


class Pair(NamedTuple):
    """What every reader yields; `place` is for messages, for example "train.en line 17"."""

    source: str
    target: str
    place: str
