"""The translators that come with qkv, each by its name: en-de is a model folder like any other."""

from pathlib import Path

ROOT = Path(__file__).parent
FOLDERS = [ROOT / "translators", ROOT.parents[1] / "translators"]  # installed, in a checkout


def translators() -> dict[str, Path]:
    """Their names, which are their languages, and where they are."""
    return {config.parent.name: config.parent for folder in FOLDERS for config in sorted(folder.glob("*/config.json"))}


def located(path: str | Path) -> Path:
    """The folder that is meant: the one of that name, or else the translator that comes with qkv."""
    path = Path(path)
    return path if path.exists() else translators().get(str(path), path)
