"""What a run keeps for the native engine: a form that says what the model says, or none; and what runs without one."""

import sys
from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import save_untrained, tokenizer
from qkv import folder, manifest
from qkv.decoding.plain import Plain
from qkv.engines import chosen, forming, tell_once
from qkv.engines.native import library
from qkv.engines.native.kept import FILE, made_of
from qkv.engines.native.library import is_built
from qkv.training import run

TEXTS = ("two dogs play in the snow", "a cat sat on the mat", "the dog sat")
WORDS = tokenizer(*TEXTS)
ROWS = [[*WORDS.encode(text), 2] for text in TEXTS]  # with the end, as rows have it
TASKS = {"transformer": "translate", "gpt2": "language_model", "bert": "fill"}
needs_engine = pytest.mark.skipif(not is_built(), reason="the native engine is not built")


@pytest.fixture(params=TASKS)
def loaded(request: pytest.FixtureRequest, tmp_path: Path) -> folder.Loaded:
    about = {"task": TASKS[request.param]}
    return folder.load(save_untrained(tmp_path, request.param, WORDS, about, d_model=32, n_heads=4, max_length=40))


@needs_engine
def test_a_form_that_says_the_same_is_kept_and_left_as_it_is(loaded: folder.Loaded, tmp_path: Path) -> None:
    assert forming.has_form(loaded.model)
    assert "int8.qkv is the model in 8 bits: of 3 texts, " in forming.keep_form(loaded, ROWS)
    assert made_of(tmp_path / FILE) == manifest.weights_digest(tmp_path)
    before = (tmp_path / FILE).stat().st_mtime_ns
    assert forming.keep_form(loaded, ROWS) == "int8.qkv is there already"
    assert (tmp_path / FILE).stat().st_mtime_ns == before
    manifest.check(tmp_path)


@needs_engine
def test_one_that_differs_is_not_kept_nor_an_old_one(
    loaded: folder.Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_bytes(bytes(200))  # of other weights
    monkeypatch.setattr(forming, "LEAST", {name: (1.1, what) for name, (_, what) in forming.LEAST.items()})
    said = forming.keep_form(loaded, ROWS)
    assert said.startswith("there is no int8.qkv: in 16 bits of 3 texts, ")
    assert said.endswith("qkv quantize compares more text")
    assert not [*tmp_path.glob("*int8*")]
    assert "there is no text to compare with" in forming.keep_form(loaded, [])


@needs_engine
def test_where_8_bits_differ_16_are_kept(
    loaded: folder.Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = forming.alike

    def alike(model: Any, native: library.Native, rows: list[list[int]]) -> str:
        if native.bits == 8:
            raise forming.DiffersError("they differ")
        return compared(model, native, rows)

    monkeypatch.setattr(forming, "alike", alike)
    assert "int8.qkv is the model in 16 bits: of 3 texts, " in forming.keep_form(loaded, ROWS)
    assert library.Native(tmp_path / FILE).bits == 16


def test_a_run_ends_well_whatever_becomes_of_the_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: Any) -> str:
        raise RuntimeError("no such form")

    monkeypatch.setattr(run.forming, "has_form", lambda model: True)
    monkeypatch.setattr(run.forming, "keep_form", broken)
    pairs = [(f"{i} {i + 1}", f"{i + 1} {i}") for i in range(60)]
    small = {"d_model": 16, "d_ff": 16, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    trained = qkv.train(
        pairs=pairs, out=tmp_path / "m", model=small, data={"vocab_size": 300},
        training={"steps": 1, "threads": 1, "precision": "float32"},
    )  # fmt: skip
    assert trained.stopped == "1 step is done"
    assert "the engine's form of the model was not made: no such form" in capsys.readouterr().err


def test_where_no_engine_was_built_torch_writes_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_untrained(tmp_path, "transformer", WORDS, {}, max_length=40)
    (tmp_path / FILE).write_bytes(b"")  # made elsewhere
    monkeypatch.setattr(library, "LIBRARY", str(tmp_path / "none.so"))
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # nor is this there
    monkeypatch.setattr("qkv.engines.find_spec", lambda name: None)
    library.library.cache_clear()
    tell_once.cache_clear()
    try:
        assert not forming.has_form(folder.load(tmp_path).model)
        for name in ("auto", "float32", "int8"):
            assert type(qkv.load(tmp_path, engine=name).engine) is Plain
        said = capsys.readouterr().err
        assert said.count("the native engine is not built here") == said.count(": torch writes, in float32\n") == 1
        assert chosen(tmp_path, folder.load(tmp_path).model) == "plain: the native engine is not built"
    finally:
        library.library.cache_clear()
