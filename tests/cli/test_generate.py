"""qkv generate: the texts of qkv.load(..).generate, whichever way the beginnings are given, and as they are written."""

import dataclasses
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import qkv as package
from qkv.cli.generate import watch
from qkv.decoding.generator import Increment

Run = Callable[..., Any]
TEXTS = ["the old king", "a queen walked", "one star"]
CONTEXT = 16


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that has learned next to nothing, which is enough to write."""
    place = tmp_path_factory.mktemp("lm")
    (place / "book.txt").write_text("\n".join(f"the old king saw {i} stars and a queen ." for i in range(300)))
    package.train(
        place / "book.txt", out=place / "lm", quiet=True, data={"vocab_size": 320, "window": CONTEXT},
        model={"d_model": 16, "n_heads": 2, "layers": 1, "max_length": CONTEXT},
        training={"steps": 3, "threads": 1, "precision": "float32"},
    )  # fmt: skip
    return place / "lm"


def test_a_text_goes_on_as_the_library_has_it(qkv: Run, lm: Path) -> None:
    result = qkv("generate", "the old king", "--model", lm, "--tokens", "8")
    expected = package.load(lm).generate("the old king", tokens=8)
    assert (result.code, result.out, result.err) == (0, f"{expected}\n", "")
    assert result.out.startswith("the old king")
    assert expected.tokens == 8


def test_a_text_is_shown_while_it_is_written(lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [""]

    class Screen(io.StringIO):
        def flush(self) -> None:
            shown.append(self.getvalue())

    def checked(pieces: Iterator[Increment], so_far: str) -> Iterator[Increment]:
        for piece in pieces:
            assert shown[-1] == so_far, "what came before is on the screen already"
            so_far += piece.text
            yield piece

    monkeypatch.setattr(sys, "stdout", Screen())
    stream = package.load(lm).stream("one star", tokens=6, stop=False)
    stream.pieces = checked(stream.pieces, "one star")
    assert str(watch(stream)) == shown[-1]
    assert len(set(shown)) > 3


def test_arguments_a_file_and_standard_input_give_the_same(qkv: Run, lm: Path, tmp_path: Path) -> None:
    (tmp_path / "beginnings.txt").write_text("\n".join([*TEXTS, ""]) + "\n")
    flags = ["--model", lm, "--tokens", "5", "--beam", "3", "--n-best", "2"]
    expected = package.load(lm).generate([*TEXTS, ""], tokens=5, beam=3, n_best=2)
    texts = [one.prompt + other.text for one in expected for other in one.alternatives]
    assert len(texts) == 8
    assert qkv("generate", "beginnings.txt", *flags).out == "\n\n".join(texts) + "\n"
    assert qkv("generate", *TEXTS, "", *flags).out == "\n\n".join(texts) + "\n"
    objects = [json.loads(line) for line in qkv("generate", *flags, "--json", stdin="\n".join([*TEXTS, "", ""])).lines]
    for found, one in zip(objects, expected, strict=True):
        assert found == {**dataclasses.asdict(one), "alternatives": [other._asdict() for other in one.alternatives]}


def test_a_seed_decides_what_is_drawn(qkv: Run, lm: Path) -> None:
    def drawn(*flags: str) -> str:
        return str(qkv("generate", "one star", "--model", lm, "--tokens", "10", *flags).out)

    assert drawn("--temperature", "2") == drawn("--temperature", "2") != drawn("--temperature", "2", "--seed", "1")
    assert drawn("--top-k", "1") == drawn() == drawn("--top-p", "0.000001")


def test_a_text_that_outgrows_the_context_is_remarked(qkv: Run, lm: Path) -> None:
    result = qkv("generate", "one", "a queen", "--model", lm, "--tokens", str(2 * CONTEXT), "--endless")
    assert result.code == 0
    remark = "is longer than the model's context: while it was written, its beginning was forgotten"
    assert result.err.splitlines() == [f"text 1 {remark}", f"text 2 {remark}"]
    found = json.loads(qkv("generate", "one", "--model", lm, "--tokens", "40", "--endless", "--json").out)
    assert (found["tokens"], found["slid"], found["ended"]) == (40, True, False)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--tokens", "0"], "tokens must be at least 1, not 0"),
        (["--beam", "2", "--temperature", "2"], "give one of them"),
        (["--n-best", "2"], "n_best=2 needs a beam of at least 2, not 1"),
        (["--temperature", "0"], "give a temperature above 0"),
        (["--repetition-penalty", "0"], "repetition_penalty must be a number above 0, such as 1.2"),
    ],
)
def test_what_cannot_be_is_refused(flags: list[str], sentence: str, qkv: Run, lm: Path) -> None:
    result = qkv("generate", "one", "--model", lm, *flags)
    assert (result.code, result.out) == (1, "")
    assert sentence in result.err


def test_a_translator_is_not_asked_to_write_on(qkv: Run, model: Path) -> None:
    result = qkv("generate", "7", "--model", model)
    assert result.code == 1
    assert "holds a model of the task 'translate'; ask it by qkv translate" in result.err
