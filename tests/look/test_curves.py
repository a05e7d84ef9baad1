"""Training curves: which panels a log gives, and what a run that was killed or resumed leaves."""

import json
from xml.etree import ElementTree

import pytest

from qkv.errors import InputError
from qkv.look.charts import draw_curves, points, read_events

pytest.importorskip("matplotlib", reason="pictures need matplotlib; pip install 'qkv[look]'")

SVG = "{http://www.w3.org/2000/svg}"
START = {"event": "start", "seed": 1}


def train(step, loss=2.0):
    return {"event": "train", "step": step, "loss": loss, "learning_rate": step / 1e6, "tokens_per_second": 900.0}


def valid(step, **more):
    return {"event": "valid", "step": step, "loss": 2.5, "perplexity": 12.2, **more}


def write(path, *events, end=""):
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + end, encoding="utf-8")
    return path


def names(svg):
    texts = [element.text for element in ElementTree.parse(svg).iter(f"{SVG}text")]
    return [text for text in texts if text in {"loss", "BLEU", "learning rate", "step", "training", "validation"}]


@pytest.mark.parametrize(
    ("events", "drawn"),
    [
        (
            [START, train(10), valid(10, bleu=3.5), train(20), valid(20, bleu=9.0)],
            ["loss", "training", "validation", "BLEU", "validation", "step", "learning rate", "training"],
        ),
        (
            [train(10), train(20), valid(20)],
            ["loss", "training", "validation", "step", "learning rate", "training"],
        ),
        ([train(10)], ["loss", "training", "step", "learning rate", "training"]),
        ([valid(10, bleu=1)], ["loss", "validation", "step", "BLEU", "validation"]),
    ],
)
def test_a_panel_for_each_thing_measured(events, drawn, tmp_path):
    path = draw_curves(write(tmp_path / "log.jsonl", *events), tmp_path / "curves.svg")
    assert sorted(names(path)) == sorted(drawn)


def test_png_of_a_long_run(tmp_path):
    log = write(tmp_path / "log.jsonl", *(train(step, 9 - step / 1000) for step in range(1, 3000, 5)))
    path = draw_curves(log, tmp_path / "new" / "curves.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in path.parent.iterdir()] == ["curves.png"]


@pytest.mark.parametrize("end", ['{"event": "train", "step": 30, "lo', "{", "\n", "12", '{"event": "tr\u00e4'])
def test_a_damaged_last_line_is_skipped(end, tmp_path):
    log = write(tmp_path / "log.jsonl", train(10), train(20), end=end)
    assert list(read_events(log)) == [train(10), train(20)]
    log.write_bytes(log.read_bytes()[:-1])  # even through the middle of a letter
    assert list(read_events(log)) == [train(10), train(20)]


def test_a_damaged_line_elsewhere_is_named(tmp_path):
    log = write(tmp_path / "log.jsonl", train(10), end='{"event": "tr\n' + json.dumps(train(20)) + "\n")
    with pytest.raises(InputError, match=r"line 2 of .*log.jsonl is not a JSON object"):
        draw_curves(log, tmp_path / "curves.png")


def test_steps_that_were_run_twice_count_once_and_in_order():
    events = [train(10, 5.0), train(20, 4.0), train(30, 9.9), train(15, 4.6), train(20, 4.5), train(30, 3.0)]
    assert list(points(events, "train", "loss").items()) == [(10, 5.0), (15, 4.6), (20, 4.5), (30, 3.0)]


def test_what_is_no_number_is_left_out():
    events = [
        train(10, float("nan")),
        train(20, None),
        train(30, "low"),
        train(40, True),
        train(50, 1.5),
        train(60, 1.0) | {"step": "x"},
    ]
    assert points(events, "train", "loss") == {50: 1.5}


@pytest.mark.parametrize("events", [[], [START], [train(10, None) | {"learning_rate": None}]])
def test_nothing_to_draw_is_said_and_leaves_no_file(events, tmp_path):
    log = write(tmp_path / "log.jsonl", *events)
    with pytest.raises(InputError, match="nothing to draw"):
        draw_curves(log, tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == [log]


def test_mistakes_are_said_in_words(tmp_path):
    with pytest.raises(InputError, match=r"log\.jsonl cannot be read \(No such file or directory\)"):
        draw_curves(tmp_path / "log.jsonl", tmp_path / "curves.png")
    with pytest.raises(InputError, match=r"use one of \.png, \.svg"):
        draw_curves(write(tmp_path / "log.jsonl", train(1)), tmp_path / "curves.gif")
