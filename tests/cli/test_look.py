"""qkv look, picture and align: what they write, what they print, and what they refuse."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv as package
from kit import save_untrained, write_sides
from kit import tokenizer as tokenizer_of
from qkv.decoding.alignment import align
from qkv.look import look_at
from qkv.why.pictures import PICTURES

pytest.importorskip("matplotlib", reason="pictures need matplotlib; pip install 'qkv[look]'")
from PIL import Image

Run = Callable[..., Any]
TEXT = "3 1 4"


@pytest.mark.parametrize("flags", [[], ["--heads"], ["--kind", "encoder"], ["--kind", "decoder", "--layer", "1"]])
def test_a_heat_map_and_its_numbers(flags: list[str], qkv: Run, model: Path, tmp_path: Path) -> None:
    done = qkv("look", TEXT, "--model", model, "-o", "look.svg", *flags)
    assert (done.code, done.out) == (0, "look.svg\n"), done.err
    data = json.loads((tmp_path / "look.json").read_text(encoding="utf-8"))
    rows = data["weights"][0] if "--heads" in flags else data["weights"]
    assert (len(rows), len(rows[0])) == (len(data["rows"]), len(data["columns"]))
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in rows)
    assert len(data["weights"]) == (4 if "--heads" in flags else len(data["rows"]))
    assert data["columns"][0] == ("<s>" if "decoder" in flags else "▁3")


def test_an_animation_has_a_frame_for_each_token_and_the_end(qkv: Run, model: Path, tmp_path: Path) -> None:
    assert qkv("look", TEXT, "--model", model, "-o", "look.gif").code == 0
    data = json.loads((tmp_path / "look.json").read_text(encoding="utf-8"))
    assert data["rows"][-1] == "</s>"
    translator = package.load(model)
    written = translator.tokenizer.encode(translator.translate(TEXT).text)
    with Image.open(tmp_path / "look.gif") as image:
        assert image.n_frames == len(written) + 1


def test_a_page_with_its_view_beside_it(qkv: Run, model: Path, tmp_path: Path) -> None:
    done = qkv("look", TEXT, "--model", model, "-o", "page.html", "--beam", "2")
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    shown = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert shown["text"] == TEXT
    assert shown["translation"] == package.load(model).translate(TEXT, beam=2).text
    assert shown["translation"] in page
    assert not re.search(r"<script[^>]+src=|<link[^>]+href=[\"']http", page), "nothing from outside"


def test_a_page_needs_nothing_of_the_server(model: Path, tmp_path: Path) -> None:
    program = "import sys\nsys.modules.update(starlette=None, uvicorn=None)\nfrom qkv.cli import main\nmain()"
    command = [sys.executable, "-c", program, "look", TEXT, "--model", model, "-o", tmp_path / "look.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tokenizer_of("a dog ate the food because it was hungry", kind="wordpiece", size=60)
    place = tmp_path_factory.mktemp("look") / "bert"
    return save_untrained(place, "bert", words, {"task": "classify", "labels": ["a", "b"]}, layers=3, n_heads=4)


@pytest.mark.parametrize(
    ("flags", "shape"),
    [([], ()), (["--heads"], (4,)), (["--layer", "all"], (3, 1)), (["--layer", "all", "--heads"], (3, 4)),
     (["--layer", "2", "--kind", "encoder"], ())],
)  # fmt: skip
def test_a_model_that_reads_is_looked_at(
    flags: list[str], shape: tuple[int, ...], qkv: Run, bert: Path, tmp_path: Path
) -> None:
    done = qkv("look", "a dog ate", "it was", "--model", bert, "-o", "look.png", *flags)
    assert (done.code, done.out) == (0, "look.png\n"), done.err
    data = json.loads((tmp_path / "look.json").read_text(encoding="utf-8"))
    assert data["rows"] == data["columns"] == ["<s>", "a", "dog", "ate", "</s>", "it", "was", "</s>"]
    weights = torch.tensor(data["weights"])
    assert weights.shape == (*shape, 8, 8)
    torch.testing.assert_close(weights.sum(-1), torch.ones(*shape, 8))
    look = torch.stack([*look_at(package.load(bert), "a dog ate", "it was").maps.values()])
    expected = {(): look[1 if "2" in flags else 2].mean(0), (4,): look[2], (3, 1): look.mean(1, True), (3, 4): look}
    torch.testing.assert_close(weights, expected[shape])


def test_its_page_has_its_view_and_parts(qkv: Run, bert: Path, tmp_path: Path) -> None:
    done = qkv("look", "a dog ate", "it was", "--model", bert, "-o", "page.html")
    assert (done.code, done.out) == (0, "page.html\n"), done.err
    shown = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert (shown["text"], shown["second"], len(shown["attention"])) == ("a dog ate", "it was", 3)
    assert shown["model"]["name"] == "bert"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f'"{part}":' in page for part in ("positions", "architecture", "curves"))


def test_its_computation_is_printed_with_every_number_whole(qkv: Run, bert: Path) -> None:
    """However narrow the screen is."""
    done = qkv("explain", "a dog ate the food because it was hungry", "--model", bert, "--layer", "3")
    assert done.code == 0, done.err
    assert "softmax, head 1" in done.out
    assert "…" not in done.out


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "look a -o a.gif",
            r"a\.gif is an animation of a translation, and this model reads; let it end in \.png or \.svg",
        ),
        ("look a -o a.png --layer 4", r"there is no layer 4 in this encoder; give 1 to 3"),
        ("look a -o a.png --kind decoder", r"this model has no attention of the kind decoder; look at another --kind"),
        ("look  -o a.png", r"there is no text to look at; give a sentence"),
    ],
)
def test_what_a_reader_does_not_have_is_refused(
    command: str, sentence: str, qkv: Run, bert: Path, tmp_path: Path
) -> None:
    done = qkv(*command.split(" "), "--model", bert)
    assert done.code == 1
    assert re.fullmatch(rf"qkv: [^\n]*{sentence}[^\n]*\n", done.err), done.err
    assert not list(tmp_path.iterdir())


def test_align_prints_a_line_for_each_pair_and_tune_keeps_a_layer(qkv: Run, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "copy", ignore=shutil.ignore_patterns("training"))
    pairs = [("3 1 4", "three one four"), ("", ""), ("7", "seven")]
    write_sides(pairs, tmp_path / "a.num", tmp_path / "a.en")
    done = qkv("align", "a.num", "a.en", "--model", folder)
    expected = align(package.load(folder), pairs)
    assert done.lines == [" ".join(f"{s}-{t}" for s, t in links) for links in expected]
    assert done.lines[1:] == ["", "0-0"]
    as_json = qkv("align", "a.num", "a.en", "--model", folder, "--json").lines
    assert [json.loads(line) for line in as_json] == [[list(link) for link in links] for links in expected]
    told = qkv("align", "--model", folder, "--tune", "a.num", "a.en")
    assert re.fullmatch(rf"{folder}: layer 1, the row that (reads|predicts) a word; agreement [\d.]+\n", told.out)
    kept = json.loads((folder / "alignment.json").read_text(encoding="utf-8"))
    assert kept["layer"] == 1
    assert qkv("align", "a.num", "a.en", "--model", folder, "--threshold", "1.1").lines == ["", "", ""]


def test_pictures_are_listed_and_drawn(qkv: Run, model: Path, tmp_path: Path) -> None:
    listed = [line for line in qkv("picture").lines if not line.startswith(" ")]  # long sentences are folded
    assert [line.split()[0] for line in listed] == list(PICTURES)
    assert all(len(line.split()) > 3 for line in listed), "a sentence about each"
    assert qkv("picture", "xlnet").out == "xlnet.png\n"
    assert {path.name for path in tmp_path.iterdir()} == {"xlnet.png", "xlnet.json"}
    assert qkv("picture", "decoding", "--model", model, "--text", TEXT).out == "decoding.gif\n"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("look 3 -o look.bmp", r"look\.bmp ends in none of \.html, \.png, \.svg, \.gif; choose one of them"),
        ("look 3 -o a.png --layer 9", r"there is no layer 9 in this decoder; give 1 to 1"),
        ("look 3 -o a.png --kind encoder --layer 0", r"there is no layer 0 in this encoder; give 1 to 1"),
        ("look 3 -o a.gif --heads", r"an animation shows the mean of the decoder's heads over the source"),
        ("look  -o a.png", r"there is no text to look at; give a sentence"),
        ("look 3 1 -o a.png", r"a translator reads one sentence; leave out the second text"),
        ("look 3 -o a.gif --layer all", r"an animation shows the mean of the decoder's heads over the source"),
        ("picture postions", r"there is no picture 'postions'; did you mean 'positions'\?"),
        ("picture gram -o gram.gif", r"this is a still picture, and gram\.gif has another ending; .* \.png or \.svg"),
        ("picture seq2seq -o a.png", r"this is an animation, and a\.png has another ending; let its name end in \.gif"),
        ("align", r"no file was given"),
    ],
)
def test_mistakes_are_said_in_one_sentence(command: str, sentence: str, qkv: Run, model: Path, tmp_path: Path) -> None:
    words = command.split(" ")
    given = ["--model", str(model)] if words[0] != "picture" else []
    done = qkv(*words, *given)
    assert done.code == 1
    assert re.fullmatch(rf"qkv: [^\n]*{sentence}[^\n]*\n", done.err), done.err
    assert not list(tmp_path.iterdir())


def test_a_picture_of_a_model_asks_for_one(qkv: Run) -> None:
    assert qkv("picture", "heads").err == "qkv: this picture shows a trained model at work; give one with --model\n"
