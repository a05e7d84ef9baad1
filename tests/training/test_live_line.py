"""The live line of a run: in a terminal of 80 columns it is one line, with its bar and what is worth most."""

import io
import re

import pytest
from rich.console import Console
from rich.progress import BarColumn

from qkv.display import Display
from qkv.training.telling import BAR, joined

PARTS = {
    "epoch": "epoch 123.45", "step": "step 1,234,567", "loss": "loss 10.123", "rate": "rate 4.92e-03",
    "speed": "1,234,567 examples/s", "left": "123 h 59 min left", "valid": "valid: loss 10.123, perplexity 12,345.67",
}  # fmt: skip


@pytest.mark.parametrize("width", [80, 60, 200])
def test_it_fits(width: int) -> None:
    screen = io.StringIO()
    display = Display()
    display.console = Console(file=screen, force_terminal=True, width=width, highlight=False, soft_wrap=True)
    line = joined(PARTS, width - BAR - len(" 100% "))
    with display.bar(BarColumn(BAR), "{task.percentage:>3.0f}%", "{task.description}", transient=False) as update:
        assert update is not None
        update(completed=1.0, description=line)
    shown = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", row) for row in re.split(r"[\r\n]+", screen.getvalue())]
    assert max(map(len, shown)) <= width
    assert any(row.rstrip().endswith(line) for row in shown), "nothing is cut"
    assert "step 1,234,567: " in line
    assert "123 h 59 min left" in line
    assert ("rate" in line) == (width == 200), "which is worth least"


def test_with_no_width_all_is_told() -> None:
    everything = joined(PARTS)
    assert all(part in everything for part in PARTS.values())
    assert everything.startswith("epoch 123.45, step 1,234,567: loss 10.123, rate 4.92e-03, ")
