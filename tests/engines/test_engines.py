"""Engines by name: each of them finds what the plain one finds; old names are read, wrong ones refused."""

import json
from pathlib import Path

import pytest

import qkv
from kit import TEXTS, save_untrained, tokenizer
from qkv import folder, manifest
from qkv.engines import ENGINES, open_engine
from qkv.engines.lean import Lean
from qkv.errors import InputError
from qkv.opening import load_translator


@pytest.mark.parametrize("name", ["lean", "plain"])
def test_names_are_those_of_their_engines(saved: Path, name: str) -> None:
    translator = load_translator(saved, engine=name)
    assert translator.engine.name == name
    assert isinstance(translator.engine, Lean) == (name == "lean")
    expected = [line.text for line in load_translator(saved, engine="plain").translate(TEXTS, beam=3)]
    assert [line.text for line in translator.translate(TEXTS, beam=3)] == expected


def test_a_model_that_has_no_lean_form_is_searched_as_it_is(tmp_path: Path) -> None:
    assert load_translator(save_untrained(tmp_path, "recurrent", tokenizer(*TEXTS), {})).engine.name == "plain"


def test_the_old_name_is_read_and_the_new_one_said(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_translator(saved, engine="native").engine.name == "lean"
    assert capsys.readouterr().err == "the engine native is called lean now; write lean\n"
    with pytest.raises(InputError, match=r"has no shortlist.safetensors"):
        load_translator(saved, engine="native+shortlist")
    assert capsys.readouterr().err == "the engine native+shortlist is called lean+shortlist now; write lean+shortlist\n"


def test_an_option_that_there_is_not_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no option 'worker' for .*; did you mean 'workers'"):
        qkv.load(saved, worker=2)
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    (saved / "config.json").write_text(json.dumps({**config, "task": "cloze"}), encoding="utf-8")
    manifest.seal(saved, ["config.json"])
    with pytest.raises(
        InputError, match=r"no option 'engine' for .*; a model of the task 'cloze' has none, leave it out"
    ):
        qkv.load(saved, engine="lean")


def test_an_unknown_name_is_refused_with_the_nearest(saved: Path) -> None:
    assert "lean" in ENGINES
    with pytest.raises(InputError, match="unknown engine 'leen'; did you mean 'lean'"):
        open_engine("leen", saved, folder.load(saved), "cpu")
