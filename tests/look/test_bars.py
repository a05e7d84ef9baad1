"""Pictures of a table of runs: what is drawn where, and what is refused."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from qkv.errors import InputError
from qkv.look.charts import MEAN, compose, draw_learning, draw_points, draw_trade

image = pytest.importorskip("matplotlib.image", reason="pictures need matplotlib; pip install 'qkv[look]'")

SVG = "{http://www.w3.org/2000/svg}"
PANELS = {"BLEU": [[30.0, 31.0, 35.0], [20.0]], "loss": [[2.0], [3.0, 5.0]]}


def test_means_spreads_and_runs_stand_where_they_should() -> None:
    """The mean of 30, 31, 35 is 32 and their spread sqrt(7); of 3 and 5 they are 4 and sqrt(2)."""
    expected = {"BLEU": ({0: 32.0, 1: 20.0}, {0: 7**0.5}), "loss": ({0: 2.0, 1: 4.0}, {1: 2**0.5})}
    figure = compose(["a", "b"], ["DejaVu Sans"], PANELS)
    assert [axes.get_xlabel() for axes in figure.axes] == list(PANELS)
    for axes in figure.axes:
        means, spreads = expected[axes.get_xlabel()]
        drawn = {float(bar[0].get_ydata()[0]): float(bar[0].get_xdata()[0]) for bar in axes.containers}
        assert drawn == pytest.approx(means)
        for bar in axes.containers:
            row = int(bar[0].get_ydata()[0])
            if row in spreads:
                (low, high), *_ = (segment[:, 0] for segment in bar[2][0].get_segments())
                assert (low, high) == pytest.approx((means[row] - spreads[row], means[row] + spreads[row]))
            else:
                assert not bar[2], "a single run has no spread"
        runs = [line for line in axes.lines if line.get_color() != MEAN and len(line.get_xdata())]
        assert [list(line.get_xdata()) for line in runs] == PANELS[axes.get_xlabel()]
        assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first row is at the top"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a run", "the mean of the runs"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_names_are_written_as_they_are(suffix: str, tmp_path: Path) -> None:
    names = ["position=shaw(clip=16)", "costs $5 or $6"]
    path = draw_points(names, PANELS, tmp_path / f"table.{suffix}")
    if suffix == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    texts = [element.text for element in ElementTree.parse(path).iter(f"{SVG}text")]
    assert {*names, *PANELS} <= set(texts)
    assert texts.count(names[0]) == 1, "names stand at the left panel only"


def test_what_is_not_a_number_is_left_out_and_an_empty_panel_with_it(tmp_path: Path) -> None:
    nan = float("nan")
    path = draw_points(["a", "b"], {"BLEU": [[nan, 3.0], []], "loss": [[nan], []]}, tmp_path / "table.svg")
    texts = [element.text for element in ElementTree.parse(path).iter(f"{SVG}text")]
    assert "BLEU" in texts
    assert "loss" not in texts


@pytest.mark.parametrize(
    ("panels", "name", "sentence"),
    [
        ({}, "t.png", "nothing to draw"),
        ({"BLEU": [[], []]}, "t.png", "nothing to draw"),
        ({"BLEU": [[1.0]]}, "t.png", "figures for 1 rows, not 2"),
        ({"BLEU": [[1.0], [2.0]]}, "t.gif", r"use one of \.png, \.svg"),
    ],
)
def test_mistakes_are_said_in_words(
    panels: dict[str, list[list[float]]], name: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        draw_points(["a", "b"], panels, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_point_and_a_name_for_each_row(tmp_path: Path) -> None:
    speeds, scores = [[100.0, 110.0], [200.0], []], [[30.0, 31.0], [29.0], [12.0]]
    path = draw_trade(["4+4", "6+1", "never ran"], {"tokens/s": speeds}, {"BLEU": scores}, tmp_path / "trade.svg")
    text = path.read_text()
    assert all(f">{name}</text>" in text for name in ("4+4", "6+1", "tokens/s", "BLEU"))
    assert "never ran" not in text
    picture = image.imread(draw_trade(["4+4", "6+1", "x"], {"a": speeds}, {"b": scores}, tmp_path / "trade.png"))
    assert picture.std() > 0.01


def test_a_trade_without_a_point_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row has both a and b; let a run finish first"):
        draw_trade(["x"], {"a": [[]]}, {"b": [[1.0]]}, tmp_path / "trade.png")


def test_learning_curves_have_a_line_each_and_every_number_of_examples(tmp_path: Path) -> None:
    learned = {"from a language model": {500: [80.0, 82.0], 100: [70.0, 74.0]}, "from random weights": {100: [50.0]}}
    drawn = draw_learning(learned, "accuracy %", tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert all(f">{text}</text>" in drawn for text in (*learned, "accuracy %", "examples to learn from", "100", "500"))
    assert draw_learning(learned, "accuracy %", tmp_path / "curve.png").stat().st_size > 5000
    with pytest.raises(InputError, match="no learning curve has a point"):
        draw_learning({}, "accuracy", tmp_path / "curve.png")
