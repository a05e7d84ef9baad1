"""The picture of a trade: a point for each row that has both figures."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from qkv.errors import InputError
from qkv.look.trade import draw_trade


def test_a_point_and_a_name_for_each_row(tmp_path: Path) -> None:
    speeds, scores = [[100.0, 110.0], [200.0], []], [[30.0, 31.0], [29.0], [12.0]]
    path = draw_trade(["4+4", "6+1", "never ran"], {"tokens/s": speeds}, {"BLEU": scores}, tmp_path / "trade.svg")
    text = path.read_text()
    assert all(f">{name}</text>" in text for name in ("4+4", "6+1", "tokens/s", "BLEU"))
    assert "never ran" not in text
    picture = imread(draw_trade(["4+4", "6+1", "x"], {"a": speeds}, {"b": scores}, tmp_path / "trade.png"))
    assert picture.std() > 0.01


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row has both a and b; let a run finish first"):
        draw_trade(["x"], {"a": [[]]}, {"b": [[1.0]]}, tmp_path / "trade.png")
