"""The same from Python: qkv.load, qkv.train, qkv.record_attention."""

import re
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


def test_a_translator_translates_files_scores_and_aligns(tmp_path: Path, model: Path) -> None:
    translator = qkv.load(model)
    (tmp_path / "in.num").write_text("7\n4 2\n")
    report = translator.translate_file(tmp_path / "in.num", tmp_path / "out.en")
    assert ((tmp_path / "out.en").read_text(), report.translated) == ("seven\nfour two\n", 2)
    (tmp_path / "page.html").write_text("<p><b>7</b> x</p>")
    translator.translate_file(str(tmp_path / "page.html"), tmp_path / "page.en.html", protect=["7"])
    assert "<b>7</b>" in (tmp_path / "page.en.html").read_text()
    (tmp_path / "ref.en").write_text("seven\nfour two\n")
    scores = translator.score(tmp_path / "in.num", tmp_path / "ref.en", beam=1)
    assert scores == translator.score(pairs=[("7", "seven"), ("4 2", "four two")], beam=1)
    assert scores.chrf == 100, "both are right"
    links = translator.align("4 2", "four two", threshold=0.0)
    assert translator.align(["4 2"], ["four two"]) == [links]
    assert [target for _, target in links] == [0, 1], "each target word has a source word"
    for wrong, sentence in (
        (lambda: translator.score(), "there is nothing to score"),
        (lambda: translator.translate_file(tmp_path / "a.pdf", tmp_path / "b.pdf"), "there is no format '.pdf'"),
        (lambda: translator.align("4 2", ["four two"]), "give one and one, or two lists"),
        (lambda: translator.align(["4", "2"], ["four"]), "2 source and 1 target texts cannot be aligned"),
    ):
        with pytest.raises(qkv.InputError, match=sentence):
            wrong()


def test_what_is_loaded_says_what_it_is(model: Path) -> None:
    translator = qkv.load(model)
    count = sum(weight.numel() for weight in translator.model.parameters())
    expected = f"task translate, num -> en, transformer of {count:,} parameters, engine {translator.engine.name}"
    assert repr(translator) == f"<Translator from {model}: {expected}>"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (5, "5 (int) is no text; give a str, or a list of them"),
        (None, "None (NoneType) is no text"),
        (b"7", "b'7' (bytes) is no text"),
        (["7", 4], "text 2 is 4 (int); give a list of str"),
    ],
)
def test_what_is_no_text_is_refused(model: Path, given: object, sentence: str) -> None:
    with pytest.raises(qkv.InputError, match=re.escape(sentence)):
        qkv.load(model).translate(given)


def test_what_is_no_folder_and_no_number_is_refused(model: Path) -> None:
    with pytest.raises(qkv.InputError, match=r"5 \(int\) is no path; give that of a model folder"):
        qkv.load(5)  # type: ignore[arg-type]
    for name, value in (("beam", "5"), ("alpha", None), ("sampling", 1), ("n_best", 1.5), ("beam", True)):
        with pytest.raises(qkv.InputError, match=rf"^{name} is .* \(\w+\); give it as (int|float|bool)$"):
            qkv.load(model).translate("7", **{name: value})


@pytest.mark.parametrize("name", qkv.__all__)
def test_every_public_name_has_an_example(name: str) -> None:
    assert "\n    >>> " in (getattr(qkv, name).__doc__ or "")


def test_the_options_of_a_search_are_spelled_out() -> None:
    from qkv.decoding.engine import Search, Searching

    assert Searching.__annotations__ == Search.__annotations__
