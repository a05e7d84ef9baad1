"""What every picture is made of: a canvas, texts and tables on it; and files, written whole or not at all."""

import io
import json
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.files import write_with
from qkv.look.fonts import fit, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is loaded when something is drawn
    Axes = Figure = Any

SUFFIXES = (".png", ".svg")
INK, FAINT, GRID, PLAIN = "#222222", "#8a8a8a", "#e8e8e8", "#f6f8fa"
COLOURS = ["#1f6feb", "#b3382c", "#2a7f62", "#b07d10", "#6b5b95", "#0e7c86", "#c2557a", "#5c6b1f"]  # eight heads
MOST_NUMBERS = 200  # cells up to which each bears its number
FRAME, LAST = 700, 2000  # milliseconds that each frame of an animation is shown, and the last


@dataclass(frozen=True)
class Given:
    """What a picture may draw: a trained model, a sentence; and whether letters without a font are spelled out."""

    opened: Any = None  # what `qkv.load` gives
    text: str = ""
    spell: bool = True

    @property
    def trained(self) -> Any:
        if self.opened is None:
            raise InputError("this picture shows a trained model at work; give one with --model")
        return self.opened

    @property
    def translator(self) -> Translator:
        if not isinstance(self.trained, Translator):
            raise InputError("this picture shows a translator at work, and the model is none; give one with --model")
        return self.trained


# -- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """One figure, or the frames of an animation, and the numbers that are drawn."""

    figures: list[Figure]
    data: dict[str, Any]
    is_animation: bool = False  # though it has one frame

    def save(self, path: Path) -> Path:
        """As .png or .svg, an animation as .gif, with the numbers beside it in a .json of the same name."""
        is_animation = self.is_animation or len(self.figures) > 1
        check_ending(path, is_animation=is_animation)
        if is_animation:
            save_frames(self.figures, path)
        else:
            save(self.figures[0], path)
        write_file(path.with_suffix(".json"), json.dumps(plain(self.data), ensure_ascii=False))
        return path


def check_suffix(path: Path) -> None:
    """That a still picture can be drawn, and into this file."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} does not end in the name of a picture format; use one of {', '.join(SUFFIXES)}")
    require_matplotlib()


def check_ending(path: Path, *, is_animation: bool) -> None:
    endings = (".gif",) if is_animation else SUFFIXES
    if path.suffix.lower() not in endings:
        kind = "an animation" if is_animation else "a still picture"
        raise InputError(f"this is {kind}, and {path} has another ending; let its name end in {' or '.join(endings)}")


def quiet() -> AbstractContextManager[None]:
    """Without matplotlib's warning of missing glyphs: in a PNG they are spelled out, in an SVG the viewer has them."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure whole or not at all, cut to what is drawn; an SVG keeps its text as text."""
    import matplotlib

    kind = path.suffix.lower().removeprefix(".")
    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "qkv"}), quiet():
        # No date: the same numbers give the same file.
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(picture, format=kind, dpi=150, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    return write_file(path, picture.getvalue())


def save_frames(figures: Sequence[Figure], path: Path) -> Path:
    """Figures of one size as a GIF."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    images = []
    with quiet():
        for figure in figures:
            drawn: Any = FigureCanvasAgg(figure)
            drawn.draw()
            images.append(Image.fromarray(np.asarray(drawn.buffer_rgba())).convert("RGB").quantize(64))
    content = io.BytesIO()
    times = [FRAME] * (len(images) - 1) + [LAST]
    images[0].save(content, "GIF", save_all=True, append_images=images[1:], duration=times, loop=0, optimize=False)
    return write_file(path, content.getvalue())


def write_file(path: Path, content: str | bytes) -> Path:
    # Half a surrogate pair has no UTF-8; its backslash form is the JSON escape.
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        write_with(path, lambda temporary: temporary.write_bytes(data))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place") from None
    return path


def plain(value: Any) -> Any:
    """Data for JSON: tensors as nested lists, named tuples as dicts, however deep they are."""
    if isinstance(value, Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


# -- on the canvas ---------------------------------------------------------------------------------------------------


def canvas(width: float, height: float, layout: Any = "constrained") -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor="white", layout=layout)


def sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure to write and draw on: from (0, 0), at the lower left, to (1, 1)."""
    figure = canvas(width, height)
    axes = figure.subplots()
    blank(axes)
    return figure, axes


def blank(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")


def lined(axes: Axes, x: str = "", y: str = "") -> None:
    """The look of a chart: named axes, a faint grid."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=9)


def table(
    axes: Axes, values: Any, rows: Sequence[str] = (), columns: Sequence[str] = (), *,
    title: str = "", across: str = "", down: str = "", colours: str = "Blues", digits: int = 2, spell: bool = True,
) -> None:  # fmt: skip
    """A matrix as coloured cells, whose columns go `across` and whose rows go `down`; small ones bear their numbers,
    large ones have a bar of colours. "RdBu" is for numbers of both signs."""
    numbers = torch.as_tensor(values, dtype=torch.float64)
    finite = numbers[numbers.isfinite()]
    most = max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-12)
    low = -most if colours == "RdBu" else 0.0
    image = axes.imshow(numbers.numpy(), cmap=colours, vmin=low, vmax=most, aspect="auto", interpolation="nearest")
    for labels, axis, rotation in ((rows, axes.yaxis, 0), (columns, axes.xaxis, 90 if len(columns) > 8 else 0)):
        if labels:
            shown, families = fit(labels, spell=spell)
            axis.set_ticks(range(len(shown)), shown, family=families, parse_math=False, rotation=rotation)
        else:
            axis.set_major_locator(whole_ticks())
    axes.set_xlabel(across, fontsize=8.5, color=FAINT)
    axes.set_ylabel(down, fontsize=8.5, color=FAINT)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    axes.spines[:].set(color="#c8c8c8", linewidth=0.6)
    name(axes, title, spell=spell)
    if numbers.numel() <= MOST_NUMBERS:
        number_cells(axes, numbers, 0.6 * most, digits)
    else:
        bar = axes.figure.colorbar(image, ax=axes, label="value")
        bar.ax.tick_params(labelsize=8, length=2, color=FAINT, labelcolor=INK)


def whole_ticks() -> Any:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True)


def number_cells(axes: Axes, values: Tensor, dark: float, digits: int = 2) -> None:
    """Its number in each cell, white where the cell is dark."""
    for y, row in enumerate(values.tolist()):
        for x, value in enumerate(row):
            colour = "white" if abs(value) > dark else INK
            axes.text(x, y, f"{value:.{digits}f}", ha="center", va="center", fontsize=8, color=colour)


def name(axes: Axes, title: str, *, spell: bool = True) -> None:
    (shown,), families = fit([title], spell=spell, longest=90)
    axes.set_title(shown, fontsize=10, color=INK, family=families, parse_math=False)


def write(axes: Axes, x: float, y: float, text: str, *, spell: bool = True, longest: int = 90, **how: Any) -> None:
    """A text in any script, at a point; signs of mathematics are plain letters."""
    lines, families = fit(text.split("\n"), spell=spell, longest=longest)
    how = {"ha": "center", "va": "center", "fontsize": 9, "color": INK, **how}
    axes.text(x, y, "\n".join(lines), family=families, parse_math=False, **how)


def boxed(axes: Axes, x: float, y: float, text: str, colour: Any = PLAIN, **how: Any) -> None:
    frame = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "#9aa0a6", "linewidth": 0.8}
    write(axes, x, y, text, bbox=frame, **how)
