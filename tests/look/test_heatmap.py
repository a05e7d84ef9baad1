"""Heat maps: the picture shows the numbers, the labels can be read, the files are whole."""

import base64
import io
import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.look.fonts import FIRST, choose, coverage, fit, visible
from qkv.look.heatmap import Layout, draw

image = pytest.importorskip("matplotlib.image", reason="pictures need matplotlib; pip install 'qkv[look]'")

SVG = "{http://www.w3.org/2000/svg}"
LABELS = ["dog", "中文", "مرحبا", "🎉", "$x$", "_", "", r"$\frac$", "<b>&", "e\u0301"]


def weights(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)).softmax(-1)


def texts(svg):
    return [element.text or "" for element in ElementTree.parse(svg).iter(f"{SVG}text")]


def tables(svg, height, width):
    """The colour in the middle of each cell of each map, as darkness: the maps are images inside the SVG."""
    for element in ElementTree.parse(svg).iter(f"{SVG}image"):
        href = element.attrib["{http://www.w3.org/1999/xlink}href"].split(",")[1]
        pixels = image.imread(io.BytesIO(base64.b64decode(href)), format="png")[..., :3].mean(-1)
        if element.attrib["transform"].startswith("scale(1 -1)"):
            pixels = pixels[::-1]
        rows = [int((y + 0.5) * pixels.shape[0] / height) for y in range(height)]
        columns = [int((x + 0.5) * pixels.shape[1] / width) for x in range(width)]
        yield 1 - pixels[np.ix_(rows, columns)]


def ranks(table):
    return np.asarray(table).ravel().argsort().argsort().tolist()


def test_darker_means_more_and_queries_go_down(tmp_path):
    given = [[0.0, 0.1, 0.9], [0.3, 0.5, 0.2]]
    path = draw(given, ["a", "b"], ["x", "y", "z"], tmp_path / "map.svg")
    shown = next(tables(path, 2, 3))
    assert ranks(shown) == ranks(given)


def test_keys_stand_along_the_top_and_queries_down_the_side(tmp_path):
    path = draw(weights(2, 2), ["a", "b"], ["x", "y"], tmp_path / "map.svg")
    found = {e.text: (float(e.attrib["x"]), float(e.attrib["y"])) for e in ElementTree.parse(path).iter(f"{SVG}text")}
    assert found["a"][0] < found["x"][0] < found["y"][0]
    assert found["x"][1] < found["a"][1] < found["b"][1]


def test_every_head_has_its_map_on_one_scale(tmp_path):
    orders = [torch.randperm(12, generator=torch.Generator().manual_seed(head)) for head in range(8)]
    given = torch.stack(orders).view(8, 3, 4) / 11 * torch.linspace(0.3, 1, 8)[:, None, None]
    path = draw(given, list("abc"), list("wxyz"), tmp_path / "heads.svg")
    shown = list(tables(path, 3, 4))[:8]
    assert [ranks(table) for table in shown] == [ranks(table) for table in given]
    assert np.all(np.diff([table.max() for table in shown]) > 0)
    assert [text for text in texts(path) if text.startswith("head")] == [f"head {head}" for head in range(1, 9)]


def test_every_layer_has_a_row_of_heads(tmp_path):
    orders = torch.stack([torch.randperm(6, generator=torch.Generator().manual_seed(seed)) for seed in range(12)])
    path = draw(orders.view(3, 4, 2, 3) / 5, list("ab"), list("xyz"), tmp_path / "grid.svg")
    assert [ranks(table) for table in list(tables(path, 2, 3))[:12]] == [ranks(table) for table in orders]
    wanted = [f"layer {layer}, head {head}" for layer in (1, 2, 3) for head in (1, 2, 3, 4)]
    assert [text for text in texts(path) if text.startswith("layer")] == wanted
    frames = Layout(12, 2, 3, given=4).frames()
    assert len({x for x, *_ in frames}) == 4
    assert frames[0][1] == frames[3][1] > frames[4][1], "the first layer stands on top"
    draw(weights(2, 1, 2, 3), list("ab"), list("xyz"), path)
    assert [text for text in texts(path) if "layer" in text] == ["layer 1", "layer 2"]


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list, lambda w: torch.tensor(w, dtype=torch.bfloat16)])
def test_numbers_lie_beside_the_picture(kind, tmp_path):
    given = [[0.25, 0.75], [1.0, 0.0]]
    rows = [" dog", "\ud83d"]  # half an emoji, as a byte-level token can be
    draw(kind(given), rows, ["中", "$"], tmp_path / "deep" / "map.png")
    assert sorted(file.name for file in (tmp_path / "deep").iterdir()) == ["map.json", "map.png"]
    numbers = json.loads((tmp_path / "deep" / "map.json").read_bytes())
    assert numbers == {"rows": rows, "columns": ["中", "$"], "weights": given}


def test_labels_of_any_script_stay_text_in_svg(tmp_path):
    n = len(LABELS)
    path = draw(weights(n, n), LABELS, LABELS, tmp_path / "map.svg", title="$5 и 中")
    shown = texts(path)
    for label in filter(None, LABELS):
        assert shown.count(label) == 2
    assert "$5 и 中" in shown


@pytest.mark.parametrize("shape", [(1, 1), (3, 30), (60, 60), (8, 5, 5)])
def test_pictures_of_any_size(shape, tmp_path):
    rows = [LABELS[i % len(LABELS)] for i in range(shape[-2])]
    columns = [LABELS[i % len(LABELS)] for i in range(shape[-1])]
    path = draw(weights(*shape), rows, columns, tmp_path / "map.PNG", title="any $ize")
    height, width, _ = image.imread(path, format="png").shape
    assert 100 < height < 4000
    assert 100 < width < 4000


@pytest.mark.parametrize(("largest", "ends"), [(0.6, ["0", "0.6"]), (0.0, ["0", "1"])])
def test_the_colour_bar_goes_from_zero_to_the_largest_weight(largest, ends, tmp_path):
    given = torch.full((1, 40), largest, requires_grad=True)
    path = draw(given, ["a"], ["b"] * 40, tmp_path / "map.svg")
    assert [text for text in texts(path) if text[0].isdigit()] == ends


def test_what_no_font_covers_is_spelled_out_in_png(tmp_path):
    # The last private character of Unicode, which no font has; the picture is that of its number, not of a box.
    one = draw([[1.0]], ["\U0010fffd"], ["a"], tmp_path / "one.png").read_bytes()
    other = draw([[1.0]], ["U+10FFFD"], ["a"], tmp_path / "other.png").read_bytes()
    assert one == other
    labels, families = fit(LABELS, spell=True)
    assert families[0] == FIRST
    covered = frozenset().union(*map(coverage, families))
    assert {ord(c) for label in labels for c in label} <= covered


def test_families_are_no_more_than_needed():
    assert choose("dog Hündin собака") == [FIRST]
    assert len(choose("dog 中")) <= 2


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" dog", "dog"),
        ("dog", "dog"),
        ("▁dog", "dog"),
        ("▁", "␣"),
        ("  dog ", "␣dog␣"),
        ("two words", "two words"),
        (" ", "␣"),
        ("   ", "␣␣␣"),
        ("\t", "⇥"),
        ("a\nb", "a↵b"),
        ("", ""),
        ("a\xa0b", "a U+00A0 b"),
        ("\u200b", "U+200B"),
        ("a\ufffe", "a U+FFFE"),
        ("\x00\ud83d", "U+0000 U+D83D"),
        ("می\u200cروم", "می\u200cروم"),  # the joiner of Persian is part of the word
    ],
)
def test_space_can_be_seen(token, shown):
    assert visible(token) == shown


@settings(deadline=None)  # the first label reads every font of the machine
@given(st.text(st.characters(codec=None), max_size=12))
def test_any_label_fits_into_xml(token):
    (label,), _ = fit([token], spell=False)
    ElementTree.fromstring(f"<a>{label.replace('&', '&amp;').replace('<', '&lt;')}</a>")
    assert bool(label) == bool(token)


def test_long_labels_end_in_an_ellipsis():
    assert fit(["x" * 100], spell=True)[0] == ["x" * 27 + "…"]


@given(st.integers(1, 32), st.integers(1, 200), st.integers(1, 200))
def test_maps_never_overlap(heads, height, width):
    frames = Layout(heads, height, width).frames()
    assert len(frames) == heads
    for i, (left, bottom, wide, high) in enumerate(frames):
        for x, y, _, _ in frames[i + 1 :]:
            assert abs(left - x) > wide or abs(bottom - y) > high


def test_the_same_numbers_give_the_same_file(tmp_path):
    for suffix in ("png", "svg"):
        files = [draw(weights(3, 3), "abc", "abc", tmp_path / f"{name}.{suffix}").read_bytes() for name in "xy"]
        assert files[0] == files[1]


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        (weights(2, 2), "map.jpg", r"use one of \.png, \.svg"),
        (weights(2, 3), "map.png", r"shape \(2, 3\), but there are 2 row and 2 column labels"),
        (weights(4, 3, 2), "map.png", r"shape \(4, 3, 2\), but there are"),
        (weights(2), "map.png", r"shape \(2,\); give \(T, S\), \(H, T, S\) or \(layers, H, T, S\)"),
        (torch.zeros(0, 2, 2), "map.png", "no side empty"),
        ([[1.0], [0.5, 0.5]], "map.png", "not a table of numbers"),
        ([["a", "b"]], "map.png", "not a table of numbers"),
        ([[float("nan"), 0], [0, 1]], "map.png", "negative, infinite or not numbers"),
        ([[-3.0, 2.0], [0, 1]], "map.png", "after the softmax"),
    ],
)
def test_mistakes_are_said_in_words_and_leave_no_file(given, name, message, tmp_path):
    with pytest.raises(InputError, match=message):
        draw(given, ["a", "b"], ["x", "y"], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "map.png" / "inside").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot be written"):
        draw(weights(2, 2), "ab", "ab", tmp_path / "map.png")
    assert [file.name for file in tmp_path.iterdir()] == ["map.png"]


def test_the_extra_is_named_where_matplotlib_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'qkv\[look\]'"):
        draw(weights(2, 2), "ab", "ab", tmp_path / "map.png")


def test_pyplot_is_left_alone(tmp_path):
    program = (
        "import sys; from pathlib import Path; from qkv.look.heatmap import draw; "
        "draw([[1.0]], ['a'], ['b'], Path(sys.argv[1])); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path / "map.png"], check=False).returncode == 0
