"""qkv shortlist: made of the run's own data or of files, compared before it is kept, chosen by --engine."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kit import write_sides
from qkv.engines.native.kept import FILE as NATIVE
from qkv.engines.shortlist import FILE


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns(NATIVE)))


@pytest.fixture
def lines() -> str:
    return "".join(f"{i} {j}\n" for i in range(10) for j in range(10))


def test_a_model_gets_one_from_its_own_training_data(qkv: Any, copy: Path, lines: str) -> None:
    result = qkv("shortlist", copy, "--frequent", "8", "--each", "12", "--bound", "3")
    assert result.code == 0, result.err
    assert "BLEU falls by" in result.out
    assert result.lines[-1] == f"wrote {copy / FILE}, use it with --engine float32+shortlist"
    exact, listed = (
        qkv("translate", "--model", copy, "--engine", name, stdin=lines) for name in ("float32", "float32+shortlist")
    )
    assert listed.code == 0, listed.err
    same = [a == b for a, b in zip(exact.lines, listed.lines, strict=True)]
    assert sum(same) > 80


def test_the_figures_are_those_of_score(qkv: Any, copy: Path, tmp_path: Path) -> None:
    pairs = [(f"{i} {j}", f"{i} {j}") for i in range(5) for j in range(5)]
    write_sides(pairs, tmp_path / "val.a", tmp_path / "val.b")
    assert qkv("quantize", copy, "--bound", "100").code == 0
    found = json.loads(qkv("shortlist", copy, "--valid", "val.a", "val.b", "--bound", "100", "--json").out)
    assert found["sentences"] == 25
    assert found["fall"] == max(found[f"{name}_bleu"] - found[f"{name}+shortlist_bleu"] for name in ("float32", "int8"))
    for name in ("float32", "float32+shortlist", "int8", "int8+shortlist"):
        scores = json.loads(qkv("score", "val.a", "val.b", "--model", copy, "--engine", name, "--json").out)
        assert scores["bleu"] == pytest.approx(found[f"{name}_bleu"])


def test_files_may_be_named_instead(qkv: Any, copy: Path, tmp_path: Path) -> None:
    shutil.rmtree(copy / "training")
    (tmp_path / "some.tsv").write_text("1 2\tone two\n3\tthree\n", encoding="utf-8")
    given = ("shortlist", copy, "--train", "some.tsv", "--valid", "some.tsv", "--bound", "100", "--frequent", "1")
    found = json.loads(qkv(*given, "--each", "0", "--json").out)
    assert found["words"] < 10  # specials, one frequent word, and the source's own
    assert 0 < found["covered"] < 1
    assert (copy / FILE).exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bound", "-100"], "(at most -100 is allowed), so nothing was written; give more words with --frequent and"),
        (["--frequent", "0"], "give 1 or more frequent words and 0 or more for each"),
        (["--each", "-1"], "give 1 or more frequent words and 0 or more for each"),
    ],
)
def test_what_is_refused_writes_nothing(qkv: Any, copy: Path, flags: list[str], message: str) -> None:
    result = qkv("shortlist", copy, *flags)
    assert result.code == 1
    assert message in result.err
    assert not (copy / FILE).exists()


def test_a_folder_without_its_data_asks_for_some(qkv: Any, copy: Path) -> None:
    shutil.rmtree(copy / "training" / "data" / "train")
    assert "has changed since it was written" in qkv("shortlist", copy).err
    assert qkv("check", copy, "--seal").code == 0  # it was meant
    assert "has no data of a training run; give --train train.en train.de" in qkv("shortlist", copy).err
    shutil.rmtree(copy / "training")
    assert "has no validation set of a training run; give --valid val.en val.de" in qkv("shortlist", copy).err
