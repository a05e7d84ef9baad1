"""A comparison of another task than translation, whole: accuracy in place of BLEU, each row with the same budget."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from corpora import CORPORA
from kit import Result
from qkv import folder
from qkv.comparing import compare, one
from qkv.comparing.plan import Row, possible, read_recipe
from qkv.comparing.shared import Shared
from qkv.comparing.table import Entry, Table
from qkv.config import merge
from qkv.display import Display
from qkv.errors import InputError
from qkv.opening import score_files
from qkv.tasks import TASKS

RECIPE = """task = "classify"
train = ["{place}/train.tsv"]
valid = ["{place}/valid.tsv"]
test = ["{place}/test.tsv"]

[data]
vocab_size = 320
batch_tokens = 200
seed = 3

[model]
d_embedding = 8
d_model = 8

[training]
epochs = 50.0
threads = 1
"""


def document(rng: random.Random, number: int) -> str:
    label, word = rng.choice([("pos", "good"), ("neg", "bad"), ("pos", "fine")])
    return f"{label}\tFilm {number}. It was {word}.\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, rng = tmp_path_factory.mktemp("tasks"), random.Random(1)
    for name, first, last in (("train", 0, 40), ("valid", 40, 50), ("test", 50, 65)):
        (place / f"{name}.tsv").write_text("".join(document(rng, number) for number in range(first, last)))
    (place / "recipe.toml").write_text(RECIPE.format(place=place))
    return place


def test_documents_are_compared_by_accuracy(place: Path, command: Callable[..., Result]) -> None:
    out = place / "out"
    how = ["compare", place / "recipe.toml", "--vary", "model.pooling=attention,mean", "--steps", "6", "--out", out]
    compared = command(*how)
    assert compared.code == 0, compared.err
    seen = compared.out
    rows = {row["name"]: row for row in json.loads((out / "table.json").read_text())["rows"]}
    assert set(rows) == {"model.pooling=attention", "model.pooling=mean"}
    header = seen.splitlines()[0]
    assert all(name in header for name in ("accuracy", "macro-F1", "Matthews correlation", "training examples/s"))
    assert not any(name in header for name in ("BLEU", "tokens/s", "perplexity"))
    for name, row in rows.items():
        [result] = row["runs"]
        model = out / "runs" / f"{name}-3"
        expected = score_files(model, place / "test.tsv")
        assert expected["examples"] == 15
        assert [result[key] for key in ("accuracy", "macro_f1", "mcc")] == [
            pytest.approx(expected[key]) for key in ("accuracy", "macro_f1", "mcc")
        ]
        loaded = folder.load(model)
        assert result["parameters"] == sum(weight.numel() for weight in loaded.model.parameters())
        assert (result["steps"], result["measured_on"]) == (6, "test files")
        assert loaded.model.config.pooling == name.partition("=")[2]
    pooled, averaged = (rows[name]["runs"][0]["parameters"] for name in rows if rows[name]["runs"])
    assert abs(pooled - averaged) == 2 * (8 * 8 + 8 + 8), "two poolings, each a matrix, a bias and a query"
    assert "accuracy of the test files" in seen
    assert "baselines on the validation examples: majority class" in seen
    assert len(list((out / "corpora").iterdir())) == 1, "one corpus for all rows"
    again = command(*how)
    assert (again.code, "2 of 2 runs are done" in again.err) == (0, True)


@pytest.mark.parametrize("task", TASKS)
def test_any_task_is_measured(task: str, tmp_path: Path) -> None:
    """In this process: without test files, the figures are those of the validation whose weights were kept."""
    tiny, kind = CORPORA[task], TASKS[task]
    settings = {key: value for key, value in tiny.settings(steps=4).items() if key != "quiet"}
    base = {"task": task, "train": [str(tiny.write(tmp_path))], **settings}
    [row], impossible = possible(base, [Row("row")], skip=False)
    assert not impossible
    search = {"beam": 1, "alpha": 1.0} if kind.search else {}
    spec = Shared(base, tmp_path, Display(quiet=True)).spec(row, 0, search)
    place = tmp_path / "run"
    place.mkdir()
    (place / "spec.json").write_text(json.dumps(asdict(spec)))
    assert one.main(place / "spec.json") == 0
    result = json.loads((place / "result.json").read_text())
    log = [json.loads(line) for line in (place / "training" / "log.jsonl").read_text().splitlines()]
    best = [event for event in log if event["event"] == "valid" and event["best"]][-1]
    assert result["measured_on"] == f"{kind.unit} held out"
    if kind.score == "loss":  # of running text, whose windows overlap when it is measured
        assert result["loss"] == pytest.approx(best["loss"], rel=0.02)
        assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    else:
        assert result["loss"] == best["loss"]
        for name in set(kind.figures) - {"loss", *(kind.figures if kind.search else ())}:
            assert result[name] == pytest.approx(best[name], rel=1e-5)
    if (place / "results.json").exists():
        assert result["baselines"] == json.loads((place / "results.json").read_text())["baselines"] != {}
    assert result["training_speed" if kind.speed == "tokens" else "example_speed"] > 0
    assert kind.score in result
    assert ("bleu" in result, "decoding_speed" in result) == (kind.score == "bleu",) * 2


def test_a_vocabulary_is_shared_by_rows_that_read_alike(place: Path, tmp_path: Path) -> None:
    base = read_recipe(place / "recipe.toml")[0]
    shared = Shared(base, tmp_path, Display(quiet=True))

    def spec(**changes: Any) -> Any:
        return shared.spec(Row("row", changes), 1, {})

    plain, wide, capitals = spec(), spec(model={"d_model": 12}), spec(data={"lowercase": False})
    assert plain.seed == 4
    corpora = [one.settings["corpus"] for one in (plain, wide, capitals)]
    assert corpora[0] == corpora[1] != corpora[2]
    assert len({one.digest for one in (plain, wide, capitals)}) == 3
    assert spec(training={"threads": 7}).digest == plain.digest
    other = Shared(merge(base, {"test": []}), tmp_path, Display(quiet=True))
    assert other.spec(Row("row"), 1, {}).digest != plain.digest


def test_the_table_of_a_task_waits_with_its_own_columns() -> None:
    waiting = Table("recipe", TASKS["classify"], {}, [Entry(Row("a"), waiting=1)])
    assert waiting.header() == ["row", "parameters", "loss", "accuracy", "macro-F1", "Matthews correlation",
                                "peak memory"]  # fmt: skip
    results = [
        {"seed": seed, "threads": 1, "accuracy": 0.5, "measured_on": "test files", "baselines": {"luck": luck}}
        for seed, luck in ((1, 0.2), (2, 0.4))
    ]
    notes = Table("recipe", TASKS["classify"], {}, [Entry(Row("a"), results)]).notes()
    assert notes[1:] == ["accuracy of the test files", "baselines on the validation examples: luck 30.00 %"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("[[vary]]\nname = 'x'\ntask = 'cloze'\n", "row 'x' sets task, but rows of one table share it; make it the"),
        ("[[vary]]\nname = 'x'\nmodel.poling = 'mean'\n", "unknown key 'model.poling'; did you mean 'pooling'?"),
        ("\n[[vry]]\nname = 'x'\n", "some.toml: unknown key 'vry'; did you mean 'vary'?"),
        ("[[vary]]\nname = 'x'\narchitecture = 'reader'\n", "'reader' is no model of the task 'classify'"),
    ],
)
def test_rows_that_a_task_cannot_have(place: Path, tmp_path: Path, more: str, told: str) -> None:
    recipe = tmp_path / "some.toml"
    recipe.write_text(RECIPE.format(place=place) + more)
    with pytest.raises(InputError) as error:
        compare(recipe, out=tmp_path / "out", quiet=True)
    assert told in str(error.value)
    recipe.write_text(RECIPE.format(place=place).replace("classify", "clasify") + "[[vary]]\nname = 'x'\n")
    with pytest.raises(InputError, match="unknown task 'clasify'; did you mean 'classify'"):
        compare(recipe, out=tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
