"""The window of a language model and its context: one follows from the other, and short texts are said or measured."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import qkv
from qkv import folder
from qkv.errors import InputError
from qkv.opening import score_files, task_in
from qkv.text.examples import Text

SMALL = {"d_model": 16, "layers": 1, "n_heads": 2}
TEXT = "".join(f"{n} dogs ran after {n * n} cats.\n" for n in range(150))


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def sizes(*files: Path, out: Path, model: dict[str, Any] | None = None, **settings: Any) -> tuple[int, int]:
    """Window and context of what a run of one step writes."""
    data = {"vocab_size": 400, "batch_tokens": 128, **settings.pop("data", {})}
    training = {"steps": 1, "threads": 1}
    start = "start" in settings
    qkv.train(*files, out=out, quiet=True, data={} if start else data, training=training,
              model={**({} if start else SMALL), **(model or {})}, **settings)  # fmt: skip
    config = json.loads((out / "config.json").read_text())
    return config["window"], config["gpt2"]["max_length"]


def test_no_place_of_the_context_goes_without_training_unless_it_is_asked_for(book: Path, tmp_path: Path) -> None:
    window, context = sizes(book, out=tmp_path / "chosen")
    assert window == context
    assert sizes(book, out=tmp_path / "window", data={"window": 24}) == (24, 24)
    assert sizes(book, out=tmp_path / "context", model={"max_length": 40}) == (40, 40)
    assert sizes(book, out=tmp_path / "whole", data={"window": 0}, model={"max_length": 40}) == (40, 40)
    assert sizes(book, out=tmp_path / "both", data={"window": 24}, model={"max_length": 40}) == (24, 40)
    assert sizes(book, out=tmp_path / "tuned", start=tmp_path / "context") == (40, 40)


def test_the_same_call_goes_on_with_the_window_that_follows(book: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert sizes(book, out=tmp_path / "lm", data={"window": 0}, model={"max_length": 40}) == (40, 40)


def test_a_window_longer_than_the_context_is_refused(book: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data.window is 64 tokens, but the model's context .* is 40; make the wi"):
        sizes(book, out=tmp_path / "lm", data={"window": 64}, model={"max_length": 40})
    assert not (tmp_path / "lm").exists()


def test_a_text_shorter_than_a_window_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("too short a text", encoding="utf-8")
    with pytest.raises(InputError, match=r"the text has \d+ tokens, but 1 x 129 are needed .*; give more text"):
        sizes(tmp_path / "short.txt", out=tmp_path / "lm")
    assert not (tmp_path / "lm").exists()


def test_a_text_shorter_than_a_window_can_be_validated_on_and_scored(book: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("7 dogs ran.", encoding="utf-8")
    assert sizes(book, out=tmp_path / "lm", valid=[tmp_path / "short.txt"], model={"max_length": 64}) == (64, 64)
    assert score_files(tmp_path / "lm", tmp_path / "short.txt")["loss"] > 0


def test_whole_documents_are_scored_wherever_files_and_pieces_end(book: Path, tmp_path: Path) -> None:
    sizes(book, out=tmp_path / "lm", model={"max_length": 32})
    generator = qkv.load(tmp_path / "lm")
    whole, (a, b) = generator.score(TEXT), generator.score(["one text", "another"])
    found = score_files(tmp_path / "lm", book)
    assert found["loss"] == pytest.approx(whole.nats / whole.tokens)
    assert found["bits_per_character"] == pytest.approx(whole.nats / math.log(2) / len(TEXT))
    assert found["word_perplexity"] == pytest.approx(math.exp(whole.nats / len(TEXT.split())))
    for name in ("one text", "another"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    found = score_files(tmp_path / "lm", tmp_path / "one text", tmp_path / "another")
    assert found["loss"] == pytest.approx((a.nats + b.nats) / (a.tokens + b.tokens))
    task, loaded = task_in(folder.load(tmp_path / "lm")), folder.load(tmp_path / "lm")
    pieces = [Text(TEXT[:999], "book", True), Text(TEXT[999:], "book", False)]
    assert task.evaluate(loaded, pieces)["loss"] == pytest.approx(whole.nats / whole.tokens)
