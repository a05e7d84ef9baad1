"""Which recipe a name means, and what it says."""

from pathlib import Path

from qkv.config import Tree, check_keys, read_toml
from qkv.contents import recipes
from qkv.errors import InputError, nearest
from qkv.training.settings import SIDES, Settings


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


def read(name: str | Path) -> Tree:
    """A recipe's settings and [[vary]] rows; a key that is neither is refused before anything else is said."""
    tree = read_toml(find(name))
    tree.pop("files", None)  # the digests in an older run's own recipe.toml are of that run, not settings
    keys = {key: None for key in tree if key != "objective_name"}  # as it was called once
    check_keys(Settings, keys, str(name), also=[*SIDES, "vary"])
    return tree
