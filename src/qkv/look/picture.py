"""Pictures as files: PNG or SVG, written whole or not at all."""

import io
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.errors import InputError
from qkv.files import write_with

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")


def check_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} does not end in the name of a picture format; use one of {', '.join(SUFFIXES)}")


def quiet() -> AbstractContextManager[None]:
    """Without matplotlib's warning of missing glyphs: in a PNG they are spelled out, in an SVG the viewer has them."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure whole or not at all, cut to what is drawn; an SVG keeps its text as text."""
    import matplotlib

    kind = path.suffix.lower().removeprefix(".")
    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "qkv"}), quiet():
        # No date: the same numbers give the same file.
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(picture, format=kind, dpi=150, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    write(path, picture.getvalue())


def write(path: Path, content: bytes) -> None:
    try:
        write_with(path, lambda temporary: temporary.write_bytes(content))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from None
