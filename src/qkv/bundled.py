"""The translators that come with qkv, each by its name: en-de is a model folder like any other."""

import os
from pathlib import Path

ROOT = Path(__file__).parent
FOLDERS = [ROOT / "translators", ROOT.parents[1] / "translators"]  # installed, in a checkout


def translators() -> dict[str, Path]:
    """Their names, which are their languages, and where they are."""
    return {config.parent.name: config.parent for folder in FOLDERS for config in sorted(folder.glob("*/config.json"))}


def located(path: str | Path) -> Path:
    """The folder that is meant: the one of that name, or else the translator that comes with qkv."""
    # Path's own question fails for a name of more than 255 bytes.
    return Path(path) if os.path.exists(path) else translators().get(str(path), Path(path))  # noqa: PTH110
