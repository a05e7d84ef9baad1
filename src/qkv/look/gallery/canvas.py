"""What every picture of the gallery is made of: a canvas, tables of numbers on it, and the numbers beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.look.animation import save_frames
from qkv.look.fonts import fit
from qkv.look.heatmap import numbers_beside
from qkv.look.picture import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, GRID = "#222222", "#8a8a8a", "#e8e8e8"
COLOURS = ["#1f6feb", "#b3382c", "#2a7f62", "#b07d10", "#6b5b95", "#0e7c86", "#c2557a", "#5c6b1f"]  # eight heads
MOST_NUMBERS = 200  # cells up to which each bears its number


@dataclass(frozen=True)
class Given:
    """What a picture may draw: a trained model, a sentence; and whether letters without a font are spelled out."""

    translator: Translator | None = None
    text: str = ""
    spell: bool = True

    @property
    def trained(self) -> Translator:
        if self.translator is None:
            raise InputError("this picture shows a trained model at work; give one with --model")
        return self.translator


@dataclass(frozen=True)
class Picture:
    """One figure, or the frames of an animation, and the numbers that are drawn."""

    figures: list["Figure"]
    data: dict[str, Any]

    def save(self, path: Path) -> Path:
        """As .png or .svg, an animation as .gif, with the numbers beside it in a .json of the same name."""
        check_ending(path, is_animation=len(self.figures) > 1)
        if len(self.figures) > 1:
            save_frames(self.figures, path)
        else:
            save(self.figures[0], path)
        numbers_beside(path, plain(self.data))
        return path


def check_ending(path: Path, *, is_animation: bool) -> None:
    endings = (".gif",) if is_animation else (".png", ".svg")
    if path.suffix.lower() not in endings:
        kind = "an animation" if is_animation else "a still picture"
        raise InputError(f"this is {kind}, and {path} has another ending; let its name end in {' or '.join(endings)}")


def plain(value: Any) -> Any:
    """Tensors as nested lists, however deep they are."""
    if isinstance(value, Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def canvas(width: float, height: float, title: str = "", *, spell: bool = True) -> "Figure":
    """An empty figure, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        (shown,), families = fit([title], spell=spell, longest=120)
        figure.suptitle(shown, fontsize=12, color=INK, family=families, parse_math=False)
    return figure


def table(
    axes: "Axes", values: Any, rows: Sequence[str] = (), columns: Sequence[str] = (), *,
    title: str = "", colours: str = "Blues", digits: int = 2, spell: bool = True,
) -> None:  # fmt: skip
    """A matrix as coloured cells; small ones bear their numbers. "RdBu" is for numbers of both signs."""
    numbers = torch.as_tensor(values, dtype=torch.float64)
    finite = numbers[numbers.isfinite()]
    most = max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-12)
    low = -most if colours == "RdBu" else 0.0
    axes.imshow(numbers.numpy(), cmap=colours, vmin=low, vmax=most, aspect="auto", interpolation="nearest")
    for labels, axis, rotation in ((rows, axes.yaxis, 0), (columns, axes.xaxis, 90 if len(columns) > 8 else 0)):
        shown, families = fit(labels, spell=spell)
        axis.set_ticks(range(len(shown)), shown, family=families, parse_math=False, rotation=rotation)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    axes.spines[:].set(color="#c8c8c8", linewidth=0.6)
    if title:
        name(axes, title, spell=spell)
    if numbers.numel() <= MOST_NUMBERS:
        for y, row in enumerate(numbers.tolist()):
            for x, value in enumerate(row):
                colour = "white" if abs(value) > 0.6 * most else INK
                axes.text(x, y, f"{value:.{digits}f}", ha="center", va="center", fontsize=8, color=colour)


def name(axes: "Axes", title: str, *, spell: bool = True) -> None:
    (shown,), families = fit([title], spell=spell, longest=90)
    axes.set_title(shown, fontsize=10, color=INK, family=families, parse_math=False)


def write(axes: "Axes", x: float, y: float, text: str, *, spell: bool = True, longest: int = 90, **how: Any) -> None:
    """A text in any script, at a point; signs of mathematics are plain letters."""
    lines, families = fit(text.split("\n"), spell=spell, longest=longest)
    how = {"ha": "center", "va": "center", "fontsize": 9, "color": INK, **how}
    axes.text(x, y, "\n".join(lines), family=families, parse_math=False, **how)


def boxed(axes: "Axes", x: float, y: float, text: str, colour: Any = "#f6f8fa", **how: Any) -> None:
    frame = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "#9aa0a6", "linewidth": 0.8}
    write(axes, x, y, text, bbox=frame, **how)


def blank(axes: "Axes") -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")


def lined(axes: "Axes", x: str, y: str) -> None:
    """The look of a chart: named axes, a faint grid."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=9)
