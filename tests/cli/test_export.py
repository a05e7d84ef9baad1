"""`qkv export` as a person uses it: the agreement is printed, a folder appears, mistakes end in one sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv as package
from kit import ROUNDED, write_tsv
from qkv.cli import export
from qkv.engines.native.library import is_built

Run = Callable[..., Any]
LINES = "".join(f"{i} {i * 3 % 10}\n" for i in range(10))


@pytest.mark.parametrize(
    ("to", "module", "main"),
    [
        ("ctranslate2", "ctranslate2", "model.bin"),
        ("onnx", "onnxruntime", "decoder.onnx"),
        ("huggingface", "transformers", "model.safetensors"),
    ],
)
def test_an_export_is_checked_and_says_so(
    to: str, module: str, main: str, qkv: Run, model: Path, tmp_path: Path
) -> None:
    pytest.importorskip(module, reason=f"{module} is not installed; pip install 'qkv[dev]'")
    (tmp_path / "lines.num").write_text(LINES)
    result = qkv("export", model, "out", "--to", to, "--check", "lines.num")
    assert (result.code, result.err) == (0, "")
    assert result.lines == [
        "greedy: 10 of 10 sentences are the same, token for token (of lines.num)",
        "beam 5: 10 of 10 sentences are the same, token for token (of lines.num)",
        "wrote out",
    ]
    assert (tmp_path / "out" / main).exists()
    again = qkv("export", model, "out", "--to", to)  # an export may take the place of another
    assert again.code == 0
    assert again.lines[0].endswith("(of the validation set)")


def test_the_engine_gives_the_same_lines_and_scores(qkv: Run, model: Path, tmp_path: Path) -> None:
    """With the folder inside the model folder that `export` writes when no other is named; random tokens check it."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    shutil.copytree(model, tmp_path / "m", ignore=shutil.ignore_patterns("training"))
    result = qkv("export", "m", "--to", "ctranslate2")
    assert (result.code, result.lines[-1]) == (0, f"wrote {Path('m/ctranslate2')}")
    assert result.lines[0].endswith("(of random tokens)")
    ours, theirs = (
        qkv("translate", "3 1 4", "2 7", "", "8", "--model", "m", "--scores", "--engine", engine)
        for engine in ("float32", "ctranslate2")
    )
    assert theirs.out == ours.out
    (tmp_path / "test.tsv").write_text("3 1\tthree one\n8\teight\n")
    ours, theirs = (
        qkv("score", "test.tsv", "--model", "m", "--json", "--engine", e) for e in ("float32", "ctranslate2")
    )
    assert json.loads(theirs.out) == json.loads(ours.out)


@pytest.mark.skipif(not is_built(), reason="the native engine is not built")
def test_a_folder_of_the_8_bit_form_alone(qkv: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.num").write_text(LINES)
    said = qkv("export", model, "small", "--to", "int8")
    assert said.code == 0, said.err
    assert said.lines[0][:12] == "wrote small:"
    assert not (tmp_path / "small" / "model.safetensors").exists()
    for flags in ((), ("--scores",), ("--engine", "plain"), ("--engine", "float32")):  # these by the file's weights
        whole, small = (qkv("translate", "lines.num", "--model", folder, *flags) for folder in (model, "small"))
        assert (small.code, small.out) == (0, whole.out), small.err
    assert repr(package.load("small")).split(",")[1:] == repr(package.load(model)).split(",")[1:]
    for more in (["check", "small"], ["info", "small"], ["export", "small", "out", "--to", "onnx"]):
        assert qkv(*more).code == 0, more
    again = qkv("quantize", "small", "--valid", write_tsv(tmp_path / "some.tsv", [("7", "seven")]), "--bound", -100)
    assert (again.code, again.err) == (
        1, "qkv: small has its 8 bits alone, with no weights to compare them with; give the folder it is from\n"
    )  # fmt: skip
    assert qkv("translate", "7", "--model", "small").lines == ["seven"]  # what is refused loses nothing
    for flags, sentence in {
        ("small", "--to", "int8"): "is not overwritten",
        ("x", "--to", "int8", "--check", "lines.num"): "give lines.num to qkv quantize --valid",
        ("x", "--to", "int8", "--quantization", "int8"): "is for ctranslate2 alone",
        ("x", "--to", "int88"): "did you mean 'int8'",
    }.items():
        wrong = qkv("export", model, *flags)
        assert wrong.code == 1
        assert sentence in wrong.err
    form = tmp_path / "small" / "int8.qkv"
    form.write_bytes(form.read_bytes()[:-1] + b"\1")
    broken = qkv("translate", "7", "--model", "small")
    assert broken.code == 1
    assert "int8.qkv" in broken.err
    assert "Traceback" not in broken.err


def test_rounded_weights_may_differ_a_little(qkv: Run, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    result = qkv("export", model, "out", "--to", "ctranslate2", "--quantization", ROUNDED)
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "out" / "qkv.json").read_text())["quantization"] == ROUNDED


def test_an_export_that_translates_otherwise_is_refused_and_removed(
    qkv: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are not those of the model: what a mistake in an exporter would write."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed; pip install 'qkv[onnx]'")
    right = export.DECODERS["onnx"]

    def of_other_weights(folder: Path, translator: package.Translator) -> Any:
        weight = next(translator.model.parameters()).data  # ours, after the export was written
        three, eight = (translator.tokenizer.encode(digit)[-1] for digit in ("3", "8"))
        weight[[three, eight]] = weight[[eight, three]]
        return right(folder, translator)

    monkeypatch.setitem(export.DECODERS, "onnx", of_other_weights)
    result = qkv("export", model, "out", "--to", "onnx")
    assert result.code == 1
    assert "the export does not translate as qkv does" in result.err
    assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "onyx"], "unknown format 'onyx'; did you mean 'onnx'?"),
        (
            ["out", "--to", "onnx", "--quantization", "int8"],
            "quantization='int8' is for ctranslate2 alone, not for onnx",
        ),
        (["out", "--to", "ctranslate2", "--quantization", "int9"], "unknown quantization 'int9'; did you mean 'int8'?"),
        (["letters", "--to", "onnx"], "letters exists and is no export, so it is not overwritten; name a new folder"),
        (["out", "--to", "onnx", "--check", "none"], "there is no file 'none'"),
        (["out", "--to", "onnx", "--check", "letters/empty"], "there is no sentence to check with in letters/empty"),
    ],
)
def test_mistakes(words: list[str], sentence: str, qkv: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "empty").write_text("\n")
    result = qkv("export", model, *words)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"qkv: {sentence}")
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_model_folder_is_not_written_over(qkv: Run, model: Path) -> None:
    result = qkv("export", model, model, "--to", "onnx")
    assert (result.code, "is the model folder itself" in result.err) == (1, True)


def test_an_unknown_engine(qkv: Run, model: Path) -> None:
    result = qkv("translate", "1", "--model", model, "--engine", "ctranslate")
    assert result.err == "qkv: unknown engine 'ctranslate'; did you mean 'ctranslate2'?\n"
