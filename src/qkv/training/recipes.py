"""Which recipe a name means."""

from pathlib import Path

from qkv.contents import recipes
from qkv.errors import InputError, nearest


def find(name: str | Path) -> Path:
    """A file, or the name of a recipe that comes with qkv."""
    if Path(name).is_file():
        return Path(name)
    known = recipes()
    if str(name) not in known:
        raise InputError(
            f"no recipe {str(name)!r}, neither a file nor one that comes with qkv; {nearest(str(name), known)}"
        )
    return known[str(name)][0]
