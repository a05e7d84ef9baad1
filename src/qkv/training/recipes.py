"""The recipes that come with qkv, one for each result that it claims."""

from pathlib import Path

from qkv.config import read_toml
from qkv.errors import InputError, nearest

FOLDERS = [Path(__file__).parent.parent / "recipes", Path(__file__).parents[3] / "recipes"]  # installed, in a checkout


def recipes() -> dict[str, tuple[Path, str]]:
    """Name -> (file, the published figure that it is measured against)."""
    found = [path for folder in FOLDERS for path in sorted(folder.glob("*.toml"))]
    return {path.stem: (path, str(read_toml(path).get("published", ""))) for path in found}


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
