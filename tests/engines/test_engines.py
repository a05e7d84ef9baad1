"""Engines by name: each of them finds what the plain one finds; old names are read, wrong ones refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import TEXTS, save_untrained, stirred, tiny_model, tokenizer
from qkv import engines, folder, manifest, record_attention
from qkv.convert import digest
from qkv.convert.native import write
from qkv.decoding import Search, Translator
from qkv.decoding.plain import Plain
from qkv.decoding.searcher import CELLS, Searched, by_length
from qkv.engines import ENGINES, chosen, open_engine, why
from qkv.engines.native.kept import FILE, in_memory
from qkv.engines.native.library import is_built
from qkv.engines.native.writer import NativeWriter
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Transformer
from qkv.opening import load_translator
from qkv.weights import save_weights

needs_engine = pytest.mark.skipif(not is_built(), reason="the native engine is not built")


@needs_engine
@pytest.mark.parametrize("name", ["float32", "plain", "int8", "auto"])
def test_names_are_those_of_their_engines(saved: Path, name: str) -> None:
    loaded = folder.load(saved)
    if name == "int8":
        write(saved / FILE, loaded.model, made_of=digest(saved))
    translator = load_translator(saved, engine=name)
    assert translator.engine.name == ("float32" if name == "auto" else name)
    assert isinstance(translator.engine, NativeWriter) == (name != "plain")
    expected = [line.text for line in load_translator(saved, engine="plain").translate(TEXTS, beam=3)]
    found = [line.text for line in translator.translate(TEXTS, beam=3)]
    assert found == expected or name == "int8"


@needs_engine
def test_auto_says_why(saved: Path) -> None:
    def told() -> tuple[str, str]:
        loaded = folder.load(saved)
        return why(loaded, open_engine("auto", loaded)), chosen(saved, loaded.model)

    said = "there is no int8.qkv (qkv quantize makes it)"
    assert told() == (said, f"float32: {said}")
    write(saved / FILE, folder.load(saved).model, made_of=digest(saved))
    reason, both = told()
    assert reason == "int8.qkv is there"
    assert both.startswith("int8: int8.qkv is there, for ")
    (saved / FILE).write_bytes(bytes(200))
    assert told()[0] == "int8.qkv is left out"


def test_a_model_that_has_no_other_form_is_searched_as_it_is(tmp_path: Path) -> None:
    for engine in ("auto", "float32"):
        place = save_untrained(tmp_path / engine, "recurrent", tokenizer(*TEXTS), {})
        assert load_translator(place, engine=engine).engine.name == "plain"
    assert chosen(place, folder.load(place).model) == "plain: the model has no other form"


@needs_engine
def test_a_source_without_an_end_is_read_so(tmp_path: Path) -> None:
    """As OpenNMT-py's models do: the same translations, and the same links between words."""
    words = tokenizer(*TEXTS)
    sizes = {"vocab_size": len(words), "d_model": 32, "n_heads": 4, "max_length": 40, "source_end": False}
    folder.save(tmp_path, stirred(tiny_model("transformer", **sizes), 0.3).eval(), words, {})
    ours, plain = (load_translator(tmp_path, engine=name) for name in ("float32", "plain"))
    sources = [*words.encode_batch(TEXTS), []]
    for how in (Search(beam=1), Search(beam=4, n_best=2)):
        found, exact = (each.engine.decode(sources, [12] * len(sources), how) for each in (ours, plain))
        assert [[h.tokens for h in some] for some in found] == [[h.tokens for h in some] for some in exact]
    assert ours.align(TEXTS, TEXTS) == plain.align(TEXTS, TEXTS)
    write(tmp_path / FILE, plain.model, made_of=manifest.weights_digest(tmp_path))
    in_bytes = load_translator(tmp_path)
    assert (in_bytes.engine.name, in_bytes.engine.source_end) == ("int8", False)


@pytest.mark.parametrize(("old", "new"), [("native", "float32"), ("lean", "float32"), ("fastest", "auto")])
def test_old_names_are_read_and_the_new_one_said(
    saved: Path, capsys: pytest.CaptureFixture[str], old: str, new: str
) -> None:
    assert load_translator(saved, engine=old).engine.name == load_translator(saved).engine.name
    assert f"the engine {old} is called {new} now; write {new}\n" in capsys.readouterr().err
    if is_built():
        with pytest.raises(InputError, match=r"has no shortlist.safetensors"):
            load_translator(saved, engine=f"{old}+shortlist")
        said = f"the engine {old}+shortlist is called {new}+shortlist now; write {new}+shortlist\n"
        assert capsys.readouterr().err == said


def test_where_the_native_engine_was_not_built_ctranslate2_writes_else_torch(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said once; a language model, which it does not stream, is torch's."""
    monkeypatch.setattr("qkv.engines.is_built", lambda: False)
    engines.tell_once.cache_clear()
    found = load_translator(saved)
    assert found.engine.name == "ctranslate2"
    assert found.translate(TEXTS) == load_translator(saved, engine="plain").translate(TEXTS)
    load_translator(saved)
    assert capsys.readouterr().err.count("the native engine is not built here") == 1
    assert engines.chosen(saved, found.model) == "ctranslate2: the native engine is not built"
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert load_translator(saved).engine.name == "plain"
    engines.tell_once.cache_clear()


def test_an_option_that_there_is_not_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no option 'worker' for .*; did you mean 'workers'"):
        qkv.load(saved, worker=2)
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    (saved / "config.json").write_text(json.dumps({**config, "task": "cloze"}), encoding="utf-8")
    manifest.seal(saved, ["config.json"])
    with pytest.raises(
        InputError, match=r"no option 'engine' for .*; a model of the task 'cloze' has none, leave it out"
    ):
        qkv.load(saved, engine="float32")


def test_an_unknown_name_is_refused_with_the_nearest(saved: Path) -> None:
    assert "float32" in ENGINES
    with pytest.raises(InputError, match="unknown engine 'float23'; did you mean 'float32'"):
        open_engine("float23", folder.load(saved))


def other_weights(path: Path) -> None:
    loaded = folder.load(path)
    loaded.model.decoder.blocks[0].attention.query.weight.data += 1
    save_weights(path / "model.safetensors", folder.weights(loaded.model))


@needs_engine
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / FILE).unlink(), "has no int8.qkv; make it with: qkv quantize"),
        (lambda path: (path / FILE).write_bytes(b"nonsense" * 99), "cannot be used: .* make it with: qkv quantize"),
        (other_weights, "was made of other weights; make it with: qkv quantize"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(saved: Path, spoil: Any, message: str) -> None:
    write(saved / FILE, folder.load(saved).model, made_of=digest(saved))
    spoil(saved)
    with pytest.raises(InputError, match=message):
        load_translator(saved, engine="int8")


def test_another_device_has_no_form_for_cpus(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = folder.load(saved)
    loaded = Loaded(here.model, here.tokenizer, here.about, saved, device="cuda")
    assert type(open_engine("int8", loaded)) is Plain
    assert capsys.readouterr().err == "there are no 8 bits for cuda: writing in float32\n"
    assert type(open_engine("auto", loaded)) is type(open_engine("float32", loaded)) is Plain
    with pytest.raises(InputError, match=r"has no shortlist; use float32\+shortlist or .* on a CPU"):
        open_engine("int8+shortlist", loaded)


# -- threads -----------------------------------------------------------------------------------------------------------


@needs_engine
@pytest.mark.parametrize("how", [Search(beam=1), Search(beam=4, n_best=3), Search(sampling=True, seed=5)], ids=str)
def test_workers_are_threads_that_change_nothing(model: Transformer, sources: list[list[int]], how: Search) -> None:
    """Tokens, scores to the last bit, ends and loops; also where there are several batches."""
    many, native = [row[:-1] for row in sources] * 24, in_memory(model)
    assert len(by_length([len(row) + 1 for row in many], CELLS // how.beam)) > (how.beam > 1)

    def found(workers: int) -> list[Searched]:
        translator = Translator(model, tokenizer(), {}, NativeWriter.of(model, native, workers))
        return translator.search(many, [len(row) + 50 for row in many], how)

    alone = found(1)
    assert found(3) == alone
    assert found(0) == alone


@needs_engine
def test_workers_are_told_to_the_engine(saved: Path) -> None:
    assert [qkv.load(saved, **given).engine.workers for given in ({}, {"workers": 2})] == [0, 2]
    with pytest.raises(InputError, match="workers=-1 must be a number of threads, or 0 for as many as torch takes"):
        qkv.load(saved, workers=-1)
    with pytest.raises(InputError, match="'workers'"):
        qkv.load(saved).translate("two dogs", workers=2)


@needs_engine
def test_attention_is_recorded_whatever_the_engine(model: Transformer, sources: list[list[int]]) -> None:
    """Hooks are in the model, so it is searched with as it is."""
    translator = Translator(model, tokenizer(), {}, NativeWriter.of(model, in_memory(model)))
    many, how = [row[:-1] for row in sources], Search(beam=1)
    limits = [len(row) + 50 for row in many]
    expected = translator.search(many, limits, how)
    with record_attention(translator) as maps:
        found = translator.search(many, limits, how)
    assert [one.hypotheses[0].tokens for one in found] == [one.hypotheses[0].tokens for one in expected]
    assert maps
