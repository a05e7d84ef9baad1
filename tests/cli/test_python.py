"""The same from Python: qkv.load, qkv.train, qkv.record_attention."""

from pathlib import Path

import pytest
import torch

import qkv
from kit import Pairs, write_tsv


def test_load_and_translate(model: Path) -> None:
    translator = qkv.load(model)
    several = translator.translate(["7", "", "4 2"], beam=5)
    assert [type(line) for line in several] == [qkv.Translated] * 3
    assert several[0].text == "seven"
    assert several[1].text == ""
    assert several[0].score < 0, "a logarithm of a probability, by the length penalty"
    assert translator.translate("7").text == "seven"
    assert qkv.load(str(model)).translate("7", n_best=2).alternatives[0].text == "seven"


def test_train(tmp_path: Path, pairs: Pairs, capfd: pytest.CaptureFixture[str]) -> None:
    tsv = write_tsv(tmp_path / "pairs.tsv", pairs)
    trained = qkv.train(
        tsv, source="num", target="en", out=tmp_path / "model", quiet=True,
        model={"d_model": 16, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        training={"steps": 3, "threads": 1},
    )  # fmt: skip
    assert (trained.out, trained.stopped, trained.steps) == (tmp_path / "model", "3 steps are done", 3)
    assert trained.best["perplexity"] > 1
    assert qkv.load(trained.out).model.config.d_model == 16
    assert capfd.readouterr() == ("", ""), "quiet"


def test_mistakes_are_input_errors(tmp_path: Path, model: Path) -> None:
    with pytest.raises(qkv.InputError, match="no model folder"):
        qkv.load(tmp_path / "nowhere")
    with pytest.raises(qkv.InputError, match="there is no file"):
        qkv.train(tmp_path / "missing.tsv", out=tmp_path / "model")
    with pytest.raises(qkv.InputError, match=r"unknown key 'model.depth'"):
        qkv.train(tmp_path / "missing.tsv", out=tmp_path / "model", model={"depth": 3})
    with pytest.raises(qkv.InputError, match="needs a beam of at least 3"):
        qkv.load(model).translate("7", beam=2, n_best=3)
    with pytest.raises(qkv.InputError, match="there is no device 'abacus'"):
        qkv.load(model, "abacus")


def test_record_attention(model: Path) -> None:
    translator = qkv.load(model)
    expected = translator.translate("4 2")
    with qkv.record_attention(translator) as maps:
        seen = translator.translate("4 2")
    assert (seen.text, len(maps)) == (expected.text, 3), "one encoder block with one attention, one decoder's with two"
    for name, weights in maps.items():
        assert weights.dim() == 4, name
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    length = len(translator.tokenizer.encode("4 2")) + 1  # and its end
    assert maps["encoder.blocks.0.attention"].shape == (1, 4, length, length)
    assert maps["decoder.blocks.0.memory_attention"].shape[-1] == length
    before = {name: len(calls) for name, calls in maps.calls.items()}
    translator.translate("4 2")
    assert {name: len(calls) for name, calls in maps.calls.items()} == before, "recording ends with its block"
