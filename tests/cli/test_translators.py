"""Translators that come with qkv: found by their names, or by the languages of a text."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv as package
from kit import Pairs, write_tsv
from qkv import bundled
from qkv.cli.chosen import chosen
from qkv.cli.serve import default_folders
from qkv.errors import InputError

Run = Callable[..., Any]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of five names, each with its languages alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bundled, "FOLDERS", [tmp_path / "none", tmp_path / "bundled"])
    for name in ("de-en", "en-de", "en-fr", "en-zh", "fr-en"):
        write_config(tmp_path / "bundled" / name, name)
    return tmp_path


def write_config(folder: Path, name: str, **more: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source, _, target = name.partition("-")
    about = {"model_type": "qkv-transformer", "qkv_version": 1, "source": source, "target": target, "transformer": {}}
    (folder / "config.json").write_text(json.dumps(about | more))


@pytest.mark.parametrize(
    ("text", "source", "target", "name"),
    [
        ("Where is the station?", "", "de", "en-de"),
        ("Where is the station?", "en", "fr", "en-fr"),
        ("Where is the station?", "", "zh-Hans", "en-zh"),
        ("Wo ist denn nun der Bahnhof?", "", "en", "de-en"),
        ("Où est donc la gare, monsieur ?", "", "EN", "fr-en"),
        ("Wo ist denn nun der Bahnhof?", "fr", "en", "fr-en"),  # what is said holds
        ("Wo ist der Bahnhof?", "de", "", "de-en"),
    ],
)
def test_the_languages_choose(names: Path, text: str, source: str, target: str, name: str) -> None:
    assert chosen((text,), source, target) == names / "bundled" / name


def test_the_name_of_a_file_tells_its_language(names: Path) -> None:
    for language in ("de", "fr"):
        (names / f"news.{language}").write_text("Restaurant 1234\n")
        assert chosen((f"news.{language}",), "", "en") == names / "bundled" / f"{language}-en"


@pytest.mark.parametrize(
    ("text", "source", "target", "sentence"),
    [
        ((), "", "en", "--to en may be any of de-en, fr-en; give --from and --to"),  # standard input is not read for it
        (("1234",), "", "en", "--to en may be any of de-en, fr-en; give --from and --to"),
        (("¿Dónde está la estación?",), "", "en", "--to en may be any of de-en, fr-en; give --from and --to"),
        (("Hello.",), "en", "", "--from en may be any of en-de, en-fr, en-zh; give --from and --to"),
        (
            ("Hello.",), "de", "fr",
            "no translator here is for --from de --to fr; those that come with qkv are de-en, en-de, en-fr, en-zh, "
            "fr-en; name your own by --model",
        ),
        (
            ("Hello.",), "", "",
            "there is no folder model here; train one, name one by --model, or give --to: de, en, fr, zh",
        ),
    ],
)  # fmt: skip
def test_what_may_be_several_or_none_is_asked(
    names: Path, text: tuple[str, ...], source: str, target: str, sentence: str
) -> None:
    with pytest.raises(InputError) as told:
        chosen(text, source, target)
    assert str(told.value) == sentence


def test_ones_own_folder_comes_first_where_it_is_for_these_languages(names: Path) -> None:
    write_config(names / "model", "en_GB-de")
    assert chosen(("Hello.",), "", "") == Path("model")
    assert chosen(("Hello.",), "en", "de") == Path("model")
    assert chosen(("Hello.",), "en", "fr") == names / "bundled" / "en-fr"
    assert default_folders() == [Path("model")]
    write_config(names / "model", "en-de", task="fill")
    assert chosen(("Hello.",), "en", "de") == names / "bundled" / "en-de"


def test_without_a_folder_the_server_has_them_all(names: Path) -> None:
    assert [folder.name for folder in default_folders()] == ["de-en", "en-de", "en-fr", "en-zh", "fr-en"]


def test_a_translator_is_opened_by_its_name(
    qkv: Run, model: Path, pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every way in; a folder of that name comes before it."""
    monkeypatch.setattr(bundled, "FOLDERS", [tmp_path / "bundled"])
    assert qkv("export", model, "bundled/num-en", "--to", "int8").code == 0
    shutil.rmtree(tmp_path / "bundled/num-en/training", ignore_errors=True)
    for asked in (["--model", "num-en"], ["--to", "en"], ["--from", "num"]):
        result = qkv("translate", "3 1 4", *asked)
        assert (result.code, result.out) == (0, "three one four\n"), result.err
    assert package.load("num-en").translate("3 1 4").text == "three one four"
    assert qkv("info", "num-en").code == 0
    more = qkv(
        "train", write_tsv(tmp_path / "more.tsv", pairs[:20]), "--start", "num-en", "--steps", 1, "--out", "tuned"
    )
    assert more.code == 0, more.err
    (listed,) = qkv("list", "translators").lines
    size = sum(file.stat().st_size for file in (tmp_path / "bundled/num-en").iterdir()) / 1e6
    assert listed.split("  ")[-1].strip() == f"num to English, short everyday sentences, {size:.1f} MB"
    wrong = qkv("translate", "3 1 4", "--model", "num-en", "--to", "fr")
    assert (wrong.code, wrong.err) == (
        1,
        f"qkv: {tmp_path}/bundled/num-en translates from num to en, not to fr; leave --model out, or give the folder "
        "of another\n",
    )
    for name in ("x" * 300, "a\ud800"):
        assert qkv("translate", "7", "--model", name).code == 1
    (tmp_path / "num-en").mkdir()
    assert "num-en" in qkv("translate", "3 1 4", "--model", "num-en").err
