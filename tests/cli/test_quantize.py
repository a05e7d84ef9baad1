"""qkv quantize and --engine: eight bits, checked before they are kept."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import qkv as package
from kit import WORDS, save_untrained, tokenizer, write_sides
from qkv.convert.native import products_of
from qkv.engines.native.library import is_built
from qkv.engines.native.reader import FILE
from qkv.engines.native.writer import NativeWriter

needs_engine = pytest.mark.skipif(not is_built(), reason="the native engine is not built")


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    """As a run left it that could not write the engine's form."""
    return Path(shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns(FILE)))


@needs_engine
def test_a_trained_model_is_quantised_and_translates(qkv: Any, copy: Path) -> None:
    result = qkv("quantize", copy, "--bound", "3")  # few words: one of them is much BLEU
    assert result.code == 0, result.err
    assert "of the tokens are the same" in result.out
    assert (copy / FILE).exists()
    lines = "".join(f"{i} {j}\n" for i in range(10) for j in range(10))
    exact, rounded = (
        qkv("translate", "--model", copy, "--engine", name, stdin=lines).out for name in ("float32", "int8")
    )
    same = [a == b for a, b in zip(exact.splitlines(), rounded.splitlines(), strict=True)]
    assert sum(same) > 80


@needs_engine
def test_the_figures_are_those_of_score(qkv: Any, copy: Path, tmp_path: Path) -> None:
    pairs = [(f"{i} {j}", f"{i} {j}") for i in range(5) for j in range(5)]
    write_sides(pairs, tmp_path / "val.a", tmp_path / "val.b")
    found = json.loads(qkv("quantize", copy, "--valid", "val.a", "val.b", "--bound", "100", "--json").out)
    assert found["sentences"] == 25
    for name in ("float32", "int8"):
        scores = json.loads(qkv("score", "val.a", "val.b", "--model", copy, "--engine", name, "--json").out)
        assert scores["bleu"] == pytest.approx(found[f"{name}_bleu"])
        assert scores["chrf"] == pytest.approx(found[f"{name}_chrf"])


@needs_engine
def test_a_model_that_loses_more_than_the_bound_is_refused_and_nothing_is_written(qkv: Any, copy: Path) -> None:
    result = qkv("quantize", copy, "--bound", "-100")
    assert result.code == 1
    assert "(at most -100 and at least 80% are allowed), so there is no int8.qkv; translate with --engine" in result.err
    assert not [*copy.glob("*int8*")]


@needs_engine
def test_a_model_that_says_something_else_is_refused(qkv: Any, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each weight nothing but its sign is left."""
    monkeypatch.setattr("qkv.convert.native.writer.LEVELS", 1)
    result = qkv("quantize", copy, "--bound", "100")
    assert result.code == 1
    assert "at least 80% are allowed" in result.err


def test_a_folder_without_validation_text_asks_for_some(qkv: Any, copy: Path) -> None:
    shutil.rmtree(copy / "training")
    result = qkv("quantize", copy)
    assert result.code == 1
    assert "has no validation set of a training run; give --valid val.en val.de" in result.err


@needs_engine
def test_auto_takes_the_native_engine_and_says_so(qkv: Any, copy: Path) -> None:
    assert "float32: there is no int8.qkv (qkv quantize makes it)" in qkv("info", copy).out
    assert qkv("quantize", copy, "--bound", "3").code == 0
    assert "int8: int8.qkv is there, for " in qkv("info", copy).out
    by_name, chosen = (qkv("translate", "1 2", "--model", copy, "--engine", name) for name in ("int8", "auto"))
    assert (chosen.out, chosen.err) == (by_name.out, "")
    assert isinstance(package.load(copy, engine="auto").engine, NativeWriter)
    weights = load_file(copy / "model.safetensors")
    save_file({name: value * 1.001 for name, value in weights.items()}, copy / "model.safetensors")
    result = qkv("translate", "1 2", "--model", copy, "--engine", "auto")
    assert result.code == 0, result.err
    assert f"engine int8 is left out: {copy / FILE} was made of other weights" in result.err


def test_an_unknown_engine_is_told_the_nearest(qkv: Any, copy: Path) -> None:
    result = qkv("translate", "1 2", "--model", copy, "--engine", "int9")
    assert result.code == 1
    assert "unknown engine 'int9'; did you mean 'int8'?" in result.err


# -- models that read, and language models -----------------------------------------------------------------------------

SENTENCES = [" ".join(WORDS[(i * k + i) % 14] for i in range(3 + k % 5)) for k in range(1, 60)]
TINY = {"d_model": 32, "n_heads": 4, "layers": 2, "dropout": 0.0, "max_length": 32}
QUICK = {"threads": 1, "precision": "float32", "validate_every": 0}


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model folder that a short run left: of a classifier on a bert, a language model, or a bert."""
    file, task, architecture, steps = {
        "classify": ("train.tsv", "classify", "bert", 60),
        "language_model": ("train.txt", "language_model", "gpt2", 40),
        "fill": ("train.txt", "fill", "bert", 2),
    }[request.param]
    (tmp_path / "train.tsv").write_text("".join(f"{'cat' in line}\t{line}\n" for line in SENTENCES))
    (tmp_path / "train.txt").write_text("\n".join(SENTENCES * 5))
    package.train(
        tmp_path / file, task=task, architecture=architecture, out=tmp_path / "reader", quiet=True, model=TINY,
        data={"vocab_size": 300, "batch_tokens": 256}, training={**QUICK, "steps": steps, "learning_rate": 0.01},
    )  # fmt: skip
    return tmp_path / "reader"


@needs_engine
@pytest.mark.parametrize("reader", ["classify", "fill"], indirect=True)
@pytest.mark.parametrize("valid", [(), ("--valid", "lines.txt")], ids=["run", "file"])
def test_a_model_that_reads_is_quantised_and_says_the_same(
    qkv: Any, reader: Path, valid: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(SENTENCES))
    found = json.loads(qkv("quantize", reader, *valid, "--json").out)
    assert 0.99 < found["lowest_cosine"] <= found["cosine"] <= 1.00001
    exact, rounded = (package.load(reader, task="embed", engine=name).embed(SENTENCES) for name in ("plain", "int8"))
    assert (exact != rounded).any()
    cosines = (exact * rounded).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rounded, axis=1)
    if valid:
        assert cosines.mean() == pytest.approx(found["cosine"], abs=1e-4)
    by_command = qkv("embed", "lines.txt", "--model", reader, "--engine", "int8", "--json").lines if valid else []
    for line, vector in zip(by_command, rounded, strict=False):
        assert json.loads(line)["vector"] == pytest.approx(vector.tolist(), abs=1e-5)
    if "same_labels" in found:
        exact_, bytes_ = (
            [line.split("\t")[0] for line in qkv("predict", "--model", reader, *how, stdin="\n".join(SENTENCES)).lines]
            for how in ((), ("--engine", "int8"))
        )
        same = sum(a == b for a, b in zip(exact_, bytes_, strict=True)) / len(exact_)
        assert same >= 0.99
        assert not valid or same == found["same_labels"]


@needs_engine
@pytest.mark.parametrize("reader", ["language_model"], indirect=True)
def test_a_language_model_is_quantised_and_writes(qkv: Any, reader: Path) -> None:
    result = qkv("quantize", reader)
    assert result.code == 0, result.err
    assert "of the next tokens are the same" in result.out
    texts = [
        qkv("generate", "red green", "--model", reader, "--engine", name).out for name in ("float32", "int8", "auto")
    ]
    assert all(text.startswith("red green") for text in texts)
    exact, rounded = (package.load(reader, engine=name) for name in ("float32", "int8"))
    assert rounded.engine.name == "int8"
    ours, theirs = ([text.text for text in one.generate(SENTENCES[:20], tokens=3)] for one in (exact, rounded))
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) > 10
    exact, rounded = (package.load(reader, task="embed", engine=name).embed(SENTENCES) for name in ("plain", "int8"))
    assert (exact != rounded).any()
    assert np.abs(exact - rounded).max() < 0.1


@needs_engine
@pytest.mark.parametrize("reader", ["classify"], indirect=True)
def test_a_reader_that_says_something_else_is_refused(
    qkv: Any, reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its channels are divided by numbers that leave of most of them nothing."""

    def wrong(model: Any, rows: list[list[int]]) -> dict[str, torch.Tensor]:
        return {name: torch.logspace(-4, 4, weight.size(1)) for name, (weight, _) in products_of(model).items()}

    monkeypatch.setattr("qkv.engines.quantize.smoothing", wrong)
    result = qkv("quantize", reader)
    assert result.code == 1
    assert "(at least 0.99 and 0.99 is asked for), so there is no int8.qkv" in result.err
    assert not [*reader.glob("*int8*")]
    shutil.rmtree(reader / "training")
    assert "has no validation set of a training run; give --valid sentences.txt" in qkv("quantize", reader).err
    (tmp_path / "none.txt").write_text("\n\n")
    assert "no text was found to compare with" in qkv("quantize", reader, "--valid", "none.txt").err


def test_what_has_no_native_form_is_refused(qkv: Any, tmp_path: Path) -> None:
    save_untrained(tmp_path / "bert", "bert", tokenizer(), {"task": "fill"}, position="rotary")
    assert "only a Transformer, or a backbone of BERT's or GPT-2's form" in qkv("quantize", tmp_path / "bert").err
