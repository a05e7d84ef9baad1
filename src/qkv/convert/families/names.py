"""Weights by other names."""

import re
from collections.abc import Sequence


def rename(name: str, names: Sequence[tuple[str, str]]) -> str | None:
    """Our name of their weight, by the first pattern that fits all of it; None if none does."""
    for pattern, ours in names:
        if found := re.fullmatch(pattern, name):
            return found.expand(ours)
    return None
