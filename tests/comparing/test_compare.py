"""A whole comparison by the command line, in processes of its own: the table is the results; nothing runs twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import Result
from qkv.comparing import compare
from qkv.comparing.table import FIGURES
from qkv.errors import InputError

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, write_recipe: Any) -> Path:
    """A comparison of two rows, one of which fails when it trains."""
    place = tmp_path_factory.mktemp("compare")
    rows = '\n[[vary]]\nname = "h=1"\npublished = "PPL 5.29"\nmodel.n_heads = 1\n'
    rows += '[[vary]]\nname = "same"\nmodel.norm = "pre"\nmodel.n_heads = 1\n'
    # A place beyond a learned table is met in training only: such a row can be built, and fails.
    rows += '[[vary]]\nname = "short"\nmodel.position = "learned(length=3)"\n'
    rows += '[[vary]]\nname = "odd"\nmodel.n_heads = 3\n'
    write_recipe(place, 10, rows)
    return place


def stamps(out: Path) -> dict[str, tuple[int, int]]:
    """When each file of the runs was written, and which file it is."""
    files = [path for path in (out / "runs").rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def test_what_cannot_be_built_is_refused_before_anything_is_written(place: Path, command: Command) -> None:
    refused = command("compare", place / "recipe.toml", "--out", place / "none")
    told = refused.err
    assert refused.code == 1
    assert told.startswith("qkv: 1 of 4 rows cannot be built (odd: settings: model: d_model=16 is not divisible by")
    assert told.count("\n") == 1
    assert not (place / "none").exists()


def test_a_comparison(place: Path, command: Command) -> None:
    out = place / "out"
    how = ["compare", place / "recipe.toml", "--skip-impossible", "--beam", "1", "--jobs", "2", "--out", out]
    seen = command(*how)
    assert seen.code == 1, "a run failed"
    assert "same is the same as h=1: it is run once" in seen.err
    assert "0 of 2 runs are done" in seen.err
    assert sorted(path.name for path in (out / "runs").iterdir()) == ["h=1-5", "short-5"]

    result = json.loads((out / "runs" / "h=1-5" / "result.json").read_text())
    assert (result["steps"], result["threads"]) == (10, 1)
    rows = {row["name"]: row for row in json.loads((out / "table.json").read_text())["rows"]}
    assert list(rows) == ["h=1", "short"]
    assert rows["h=1"]["runs"] == [result]
    for name, figure in rows["h=1"]["figures"].items():
        assert figure == {"mean": result[name], "spread": None}
        shown = FIGURES[name].text(result[name]) + FIGURES[name].after
        assert f" {shown} |" in (out / "table.md").read_text()
        assert shown in seen.out.splitlines()[1]
    assert "short, seed 5: failed: place " in seen.out
    assert "beyond the 3 learned positions" in rows["short"]["failed"]["5"]
    assert "odd: left out, cannot be built: " in seen.out
    assert "PPL 5.29" in seen.out.splitlines()[1]
    assert len(list((out / "corpora").iterdir())) == 1, "one corpus for all rows"
    assert not list((out / "runs").glob("*/training/data"))
    assert (out / "table.png").read_bytes().startswith(b"\x89PNG")

    repaired = {**result, "digest": digest_of_run(out, "short-5")}  # as if it had not failed: it would be tried again
    (out / "runs" / "short-5" / "result.json").write_text(json.dumps(repaired))
    before = stamps(out)
    again = command(*how, "--json")
    assert again.code == 0
    assert "2 of 2 runs are done" in again.err
    assert stamps(out) == before, "nothing ran twice"
    assert json.loads(again.out) == json.loads((out / "table.json").read_text())

    with pytest.raises(InputError, match=r"h=1-5 is of other settings or other data .* give a new --out"):
        compare(place / "recipe.toml", skip_impossible=True, beam=1, steps=11, out=out, quiet=True)
    assert stamps(out) == before


def digest_of_run(out: Path, name: str) -> str:
    return str(json.loads((out / "runs" / name / "spec.json").read_text())["digest"])


def test_papers_is_the_recipe_of_that_name_and_stands_alone(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compare(recipe: str, **how: Any) -> None:
        asked.append((recipe, how["minutes"], how["seeds"]))
        raise InputError("that is enough")

    monkeypatch.setattr("qkv.comparing.compare", compare)
    assert command("compare", "--papers", "--minutes", "10", "--seeds", "2").err == "qkv: that is enough\n"
    assert asked == [("papers", 10.0, 2)]
    for given in ([], ["multi30k-en-de", "--papers"]):
        refused = command("compare", *given)
        assert (refused.code, refused.err) == (
            1,
            "qkv: give the name of one recipe, or --papers for the one of that name\n",
        )
    assert len(asked) == 1
