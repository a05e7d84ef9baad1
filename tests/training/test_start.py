"""A run begins with another model: what is taken is what was there, what is new is said, what cannot be is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv import folder
from qkv.errors import InputError
from qkv.models import Bert, BertConfig

TEXT = "".join(f"{n} dogs ran after {n * n} cats.\n" for n in range(150))
PAIRS = [(f"{n} dogs ran", f"{n} Hunde liefen") for n in range(60)]
SIZES = {"d_model": 16, "d_ff": 32, "n_heads": 2}
FROM: dict[str, dict[str, Any]] = {
    "lm": {"texts": [TEXT], "model": {"d_model": 16, "layers": 1, "n_heads": 2, "max_length": 32}},
    "translator": {"pairs": PAIRS, "model": {**SIZES, "encoder_layers": 1, "decoder_layers": 1}},
}


def reviews(*labels: str) -> list[tuple[str, str]]:
    return [(labels[n % len(labels)], f"{n} dogs are {labels[n % len(labels)]}.") for n in range(40)]


def trained(out: Path, capsys: pytest.CaptureFixture[str] | None = None, **how: Any) -> tuple[dict[str, Any], str]:
    """Train one step; the weights that came of it, and the line that says what it began with."""
    qkv.train(out=out, quiet=capsys is None, **{"training": {"steps": 1, "threads": 1}, **how})
    said = capsys.readouterr().err if capsys else ""
    begins = [line for line in said.splitlines() if line.startswith("begins with")]
    return folder.weights(folder.load(out).model), begins[0] if begins else ""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model and a translator, each trained for a step, and a critic of two labels tuned from the first."""
    place = tmp_path_factory.mktemp("models")
    for name, how in FROM.items():
        trained(place / name, data={"vocab_size": 400}, **how)
    trained(place / "critic", labelled=reviews("bad", "good"), start=place / "lm")
    return place


@pytest.mark.parametrize("name", FROM)
def test_a_classifier_begins_with_any_backbone(
    name: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how: dict[str, Any] = {"labelled": reviews("bad", "good"), "start": models / name}
    how["training"] = {"steps": 1, "threads": 1, "freeze": "backbone"}
    weights, begins = trained(tmp_path / "critic", capsys, **how)
    old = folder.weights(folder.load(models / name).model)
    frozen = {key.removeprefix("backbone."): value for key, value in weights.items() if key.startswith("backbone.")}
    assert frozen
    assert all(torch.equal(value, old[key]) for key, value in frozen.items())
    assert begins.endswith(
        f"{len(frozen)} of {len(weights)}; new are heads.classes.output.weight, heads.classes.output.bias"
    )


def test_a_head_is_taken_with_its_labels_and_new_with_others(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for labels, expected in (
        (("good", "bad"), "nothing is new"),
        (("fine", "good"), "new are heads.classes.output.weight, heads.classes.output.bias"),
        (("a", "bad", "good"), "new are heads.classes.output.weight, heads.classes.output.bias"),
    ):
        out = tmp_path / "-".join(labels)
        weights, begins = trained(out, capsys, labelled=reviews(*labels), start=models / "critic")
        assert begins.endswith(expected)
        assert len(weights["heads.classes.output.weight"]) == len(labels)
    fewer, _ = trained(tmp_path / "fewer", labelled=reviews("a", "b"), start=tmp_path / "a-bad-good")
    assert len(fewer["heads.classes.output.weight"]) == 2


def test_a_vocabulary_grows_at_its_end(models: Path, tmp_path: Path) -> None:
    old, words = folder.load(models / "lm"), "Abrakadabra Simsalabim Hokuspokus "
    how: dict[str, Any] = {"texts": [words * 300], "start": models / "lm", "data": {"grow": 20}}
    trained(tmp_path / "grown", **how, training={"steps": 1, "threads": 1, "freeze": "tokens"})
    new = folder.load(tmp_path / "grown")
    size = len(old.tokenizer)
    assert size < len(new.tokenizer) <= size + 20
    assert torch.equal(new.model.get_parameter("tokens.weight")[:size], old.model.get_parameter("tokens.weight"))
    assert len(new.tokenizer.encode(words)) < len(old.tokenizer.encode(words))


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            {"texts": [TEXT], "start": "translator"},
            "translator holds a transformer model, which cannot learn the task ",
        ),
        (
            {"texts": [TEXT], "start": "lm", "model": {"d_model": 32}},
            r"tokens.weight has the shape \(\d+, 16\), and here",
        ),
        (
            {"texts": [TEXT], "start": "lm", "data": {"tokenizer": "bpe"}},
            "lm has sub-words of its own, so data.tokenizer",
        ),
        ({"texts": [TEXT], "start": "lm", "architecture": "transformer"}, "lm holds a gpt2 model, and transformer was"),
        (
            {"texts": [TEXT], "start": "nowhere"},
            "no model folder at .*nowhere; give the folder that `qkv train --out` ",
        ),
    ],
)
def test_what_cannot_begin_is_one_sentence(how: dict[str, Any], sentence: str, models: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        trained(tmp_path / "new", **{**how, "start": models / how["start"]})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("position", ["learned", "learned(offset=2)", "rotary", "sinusoidal", "alibi"])
def test_a_long_model_says_of_short_texts_what_the_short_one_said(position: str) -> None:
    """Weights of full attention of 12 places, under BigBird's of 40: places that were not there are copies."""
    torch.manual_seed(0)
    c = BertConfig(vocab_size=30, d_model=16, n_heads=2, layers=2, max_length=12, position=position)
    short = Bert(c).eval()
    long = Bert(replace(c, max_length=40, attention="bigbird(block=4, random=1)")).eval()
    _, new = folder.start_from(long, folder.Loaded(short, None, {}), "short")  # type: ignore[arg-type]
    ids = torch.randint(4, 30, (2, 12))
    torch.testing.assert_close(long(ids).logits, short(ids).logits, atol=1e-5, rtol=0)
    if position.startswith("learned"):
        table, offset = long.encoder.position.weight, len(short.encoder.position.weight) - 12  # type: ignore[arg-type]
        for place in range(40):
            assert torch.equal(table[offset + place], table[offset + place % 12])  # type: ignore[index]
        assert new == ["28 places of encoder.positions.0.weight, copies of the first 12 over and over"]
    else:
        assert not new
    assert long(torch.randint(4, 30, (2, 40))).logits.isfinite().all()


def test_a_run_begins_with_a_shorter_model(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how: dict[str, Any] = {"labelled": reviews("bad", "good"), "start": models / "lm"}
    long = {"max_length": 100, "attention": "window(radius=8)"}
    _, begins = trained(tmp_path / "long", capsys, **how, model=long)
    assert "68 places of backbone.decoder.positions.0.weight, copies of the first 32 over and over" in begins
    assert qkv.load(tmp_path / "long").predict(" ".join(["dogs"] * 60))["label"] in ("bad", "good")
    with pytest.raises(InputError, match="start with the sizes of that model"):
        trained(tmp_path / "short", **how, model={"max_length": 16})


def test_what_was_learned_is_in_the_folder_alone(models: Path, tmp_path: Path) -> None:
    """The folder that a run began with is not needed to use what came of it."""
    about = json.loads((models / "critic" / "config.json").read_text())
    assert (about["task"], about["labels"], about["heads"]) == (
        "classify",
        ["bad", "good"],
        {"classes": "classes(n=2)"},
    )
    (models / "critic").rename(tmp_path / "moved")
    try:
        assert qkv.load(tmp_path / "moved").predict("3 dogs are good.")["label"] in about["labels"]
    finally:
        (tmp_path / "moved").rename(models / "critic")
