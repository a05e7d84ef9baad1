"""Rows that begin with the weights of stages, on several sets: what each is made of, and what follows from what."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kit import weights
from qkv import folder, train
from qkv.comparing import compare
from qkv.comparing.pace import Pace
from qkv.comparing.plan import Row, laid_over, parts, possible, read_recipe, stage
from qkv.comparing.run import Runs, budget, in_order
from qkv.comparing.shared import Shared, Spec
from qkv.comparing.stages import budgeted, chain, check, reading
from qkv.comparing.table import Entry, Table, combined
from qkv.config import Tree, merge
from qkv.contents import recipes
from qkv.display import Display
from qkv.errors import InputError
from qkv.papers import PAPERS
from qkv.tasks import TASKS

RECIPE = """published = "0: nothing was published of this"

[data]
pool = "mean"
batch_tokens = 200

[training]
epochs = 2.0
patience = 0
threads = 1

[sets.films]
task = "classify"
train = ["{place}/films.tsv"]
valid = ["{place}/films-valid.tsv"]

[sets.words]
task = "tag"
train = ["{place}/words.conll"]
valid = ["{place}/words-valid.conll"]
training = {{ epochs = 1.0 }}

[every_stage]
train = ["{place}/text.txt"]

[every_stage.data]
vocab_size = 330
batch_tokens = 128

[every_stage.model]
d_model = 8
layers = 1
n_heads = 2
max_length = 32
memory = 3

[every_stage.training]
steps = 8
threads = 1
precision = "float32"

[stages.first]
task = "language_model"
architecture = "gpt2"
share = 0.25

[stages.second]
after = "first"
task = "language_model"
architecture = "gpt2"
share = 0.75
train = ["{place}/more.txt"]

[[vary]]
name = "tuned"
after = "second"
against = "as drawn"
note = "two stages"
sets.films = {{ after = "first", objective = "classes + 0.5 * causal_lm" }}

[[vary]]
name = "as drawn"
after = "second"
untrained = true
"""


def written(place: Path) -> Path:
    """Sentences of few words: as text, with a label each, and with a tag for each word."""
    rng = random.Random(3)
    lines = [" ".join(rng.choices(["a", "good", "bad", "film", "was", "seen", "here"], k=8)) for _ in range(60)]
    (place / "text.txt").write_text("\n".join(lines[:40]) + "\n")
    (place / "more.txt").write_text("\n".join(lines[20:]) + "\n")
    films = [f"{'pos' if line.count('good') > line.count('bad') else 'neg'}\t{line}" for line in lines]
    for name, some in (("films.tsv", films[:40]), ("films-valid.tsv", films[40:])):
        (place / name).write_text("\n".join(some) + "\n")
    tagged = ["\n".join(f"{w}\t{'B-it' if w == 'film' else 'O'}" for w in line.split()) for line in lines]
    for name, some in (("words.conll", tagged[:20]), ("words-valid.conll", tagged[20:30])):
        (place / name).write_text("\n\n".join(some) + "\n")
    (place / "recipe.toml").write_text(RECIPE.format(place=place))
    return place / "recipe.toml"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("stages"))


@pytest.fixture(scope="module")
def read(recipe: Path) -> tuple[Tree, list[Row]]:
    return read_recipe(recipe)


def training(base: Tree, row: Row, part: str = "") -> Tree:
    found: Tree = laid_over(base, row, part)[0]["training"]
    return found


def test_a_row_has_the_settings_of_its_set_and_the_architecture_of_its_stage(read: tuple[Tree, list[Row]]) -> None:
    base, (tuned, drawn) = read
    assert parts(base) == ["films", "words"]
    films, words = (laid_over(base, tuned, part)[0] for part in parts(base))
    assert (films["task"], films["objective"], films["architecture"]) == (
        "classify",
        "classes + 0.5 * causal_lm",
        "gpt2",
    )
    assert (words["task"], words["training"]["epochs"]) == ("tag", 1.0)
    assert "objective" not in words
    assert not {"stages", "sets", "every_stage"} & (films.keys() | words.keys())
    assert [[one.name for one in chain(base, tuned.on(part), "")] for part in parts(base)] == [
        ["first"], ["first", "second"]
    ]  # fmt: skip
    assert possible(base, [tuned, drawn], skip=False)[0] == [tuned, drawn]


def test_a_stage_has_its_share_of_the_budget_and_the_sizes_of_the_one_before(read: tuple[Tree, list[Row]]) -> None:
    base, _ = read
    first, second = (laid_over(base, stage(base, name))[0] for name in ("first", "second"))
    assert (first["training"]["steps"], second["training"]["steps"]) == (2, 6)
    assert "memory" not in first["model"], "which this architecture does not have"
    assert (first["data"]["vocab_size"], second["data"], second["model"]) == (330, {"batch_tokens": 128}, {})


@pytest.mark.parametrize(
    ("given", "first", "second", "own"),
    [
        ((100, None, None), (25, 0), (75, 0), (0, 2.0)),
        ((None, None, 4.0), (0, 1.0), (0, 3.0), (0, 2.0)),
        ((None, 5.0, None), (2, 0), (6, 0), (0, 5.0)),
        ((1, 5.0, None), (1, 0), (1, 0), (0, 5.0)),
    ],
)
def test_steps_and_minutes_are_those_of_stages_and_epochs_those_of_rows(
    given: tuple[Any, Any, Any], first: Any, second: Any, own: Any, read: tuple[Tree, list[Row]]
) -> None:
    base, rows = budgeted(*read, budget(*given))
    found = [training(base, stage(base, name)) for name in ("first", "second")]
    assert [(one["steps"], one["minutes"]) for one in found] == [first, second]
    assert all(not one["epochs"] for one in found)
    ours = training(base, rows[0], "films")
    assert (ours.get("steps", 0), ours["epochs"]) == own


def test_a_row_with_a_share_has_its_part_of_the_same_budget(read: tuple[Tree, list[Row]]) -> None:
    base, rows = budgeted(read[0], [Row("last", {}, share=0.5), Row("free")], budget(40, None, None))
    assert [training(base, row, "films").get("steps", 0) for row in rows] == [20, 0]


def test_a_stage_may_have_the_settings_of_another_recipe(read: tuple[Tree, list[Row]]) -> None:
    base = merge(read[0], {"stages": {"known": {"recipe": "gpt-tiny", "data": {"window": 16}}}})
    tree, _ = laid_over(base, stage(base, "known"))
    assert (tree["architecture"], tree["data"]["window"]) == ("gpt", 16)
    assert tree["training"]["schedule"] == "cosine(warmup=200)"  # its own; what every stage has is laid over it
    assert (tree["data"]["vocab_size"], tree["training"]["steps"], tree["model"]["d_model"]) == (330, 8, 8)


def test_other_text_is_read_by_the_stages_that_name_none(read: tuple[Tree, list[Row]]) -> None:
    base = reading(merge(read[0], {"every_stage": {"valid": ["old"]}}), ["book.txt"], "")
    first, second = (laid_over(base, stage(base, name))[0] for name in ("first", "second"))
    assert (first["train"], first.get("valid")) == (["book.txt"], None)
    assert second["train"][0].endswith("more.txt")
    with pytest.raises(InputError, match="has no \\[every_stage\\], whose files --text would replace"):
        reading({}, ["book.txt"], "recipe")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('after = "second"\nuntr', 'after = "secnd"\nuntr', "'as drawn' comes after the stage 'secnd'.* did you mean"),
        ('after = "first"\ntask', 'after = "second"\ntask', "the stage 'second' comes after itself"),
        ('against = "as drawn"', 'against = "drawn"', "set against 'drawn', which is no row"),
        ("share = 0.25", "share = 1.25", "share is 1.25; give it a part"),
        ("share = 0.25", 'share = "all"', "share is 'all', but it is to be of the type float"),
        ('after = "second"\nuntr', "untr", "is untrained, and says of which stage"),
        ("sets.films = {", "sets.flims = {", "has settings for the set 'flims'; did you mean 'films'"),
        (
            'architecture = "gpt2"\nshare = 0.25',
            'architecture = "gtp2"\nshare = 0.25',
            "'first' cannot be built: .*gpt2",
        ),
        ("[every_stage]\ntrain", "[every_stage]\ntest", "the stage 'first' has no files"),
        ("[sets.words]", "[[sets.words]]", "sets is .* write it as tables"),
    ],
)
def test_what_cannot_be_is_one_sentence(old: str, new: str, sentence: str, recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text()
    assert old in text
    (tmp_path / "recipe.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=sentence):
        check(*read_recipe(tmp_path / "recipe.toml"), "recipe.toml")


# -- recipes that come with qkv --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, (path, _) in recipes().items() if "[[vary]]" in path.read_text()])
def test_every_recipe_with_rows_can_be_built(name: str) -> None:
    base, rows = read_recipe(name)
    check(base, rows, name)
    assert possible(base, rows, skip=False)[0] == rows


def test_each_paper_has_the_whole_budget_once_and_is_set_against_its_own_kind_of_network() -> None:
    base, rows = read_recipe("papers")
    named = {row.name: row for row in rows}
    assert {name for name, row in named.items() if not row.untrained} == {p.row for p in PAPERS.values() if p.row}
    for row in rows:
        before = chain(base, row.on("sst2"), "papers")
        if not row.untrained:
            assert sum(one.share or 1 for one in before) == pytest.approx(1), row.name
            other = named[row.against]
            kinds = [laid_over(base, one, "sst2")[0]["architecture"] for one in (row, other)]
            assert other.untrained
            assert kinds[0] == kinds[1], row.name
    sizes = [laid_over(base, stage(base, name))[0]["model"] for name in ("bert", "ernie_thu_text")]
    assert sizes[0] == sizes[1], "the second comes after entities, whose sizes say nothing of it"


# -- what is planned -------------------------------------------------------------------------------------------------


def planned(base: Tree, rows: list[Row], out: Path) -> tuple[list[Spec], Shared]:
    shared = Shared(base, out, Display(quiet=True))
    specs = {
        row.name: [[shared.spec(row, seed, {}, part) for part in parts(base)] for seed in range(2)] for row in rows
    }
    return in_order(specs, [Entry(row) for row in rows], shared), shared


@pytest.fixture(scope="module")
def plan(read: tuple[Tree, list[Row]], tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Spec], Shared]:
    return planned(*read, tmp_path_factory.mktemp("out"))


def test_each_run_stands_behind_its_stages_and_each_stage_once_for_a_seed(plan: tuple[list[Spec], Shared]) -> None:
    names = [spec.folder for spec in plan[0]]
    assert names == [
        *("stages/first-1", "runs/tuned-films-1", "stages/second-1", "runs/tuned-words-1"),
        *("runs/as-drawn-films-1", "runs/as-drawn-words-1"),
        *("stages/first-2", "runs/tuned-films-2", "stages/second-2", "runs/tuned-words-2"),
        *("runs/as-drawn-films-2", "runs/as-drawn-words-2"),
    ]
    before = {spec.folder: spec.before for spec in plan[0]}
    assert before["runs/tuned-films-1"] == before["stages/second-1"] == "stages/first-1"
    assert (before["runs/tuned-words-2"], before["runs/as-drawn-words-2"]) == ("stages/second-2", "")


def test_the_weights_as_drawn_are_those_with_which_the_stage_begins(
    plan: tuple[list[Spec], Shared], tmp_path: Path
) -> None:
    spec, untrained = plan[1].stage("first", 1)
    still = merge(spec.settings, {"training": {"steps": 1, "learning_rate": 1e-30, "weight_decay": 0.0}})
    train(out=tmp_path / "model", quiet=True, **still)
    drawn, begun, other = (
        weights(folder.load(place).model) for place in (untrained, tmp_path / "model", plan[1].stage("first", 0)[1])
    )
    assert all(torch.allclose(drawn[name], begun[name], rtol=0, atol=1e-20) for name in begun)
    assert any(not torch.equal(drawn[name], other[name]) for name in begun), "of another seed"


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"stages": {"second": {"training": {"learning_rate": 0.5}}}}, {"tuned-films"}),
        ({"stages": {"first": {"training": {"learning_rate": 0.5}}}}, set()),
        ({"sets": {"films": {"training": {"epochs": 9.0}}}}, {"tuned-words", "as-drawn-words", "first", "second"}),
    ],
)
def test_what_comes_after_a_stage_is_other_when_the_stage_is(
    changed: Tree, same: set[str], read: tuple[Tree, list[Row]], plan: tuple[list[Spec], Shared]
) -> None:
    """`as drawn` too: it has what its stage would begin with, and the digest does not look closer."""
    base, rows = read
    others, _ = planned(merge(base, changed), rows, plan[1].out)
    equal = {one.folder for one, other in zip(plan[0], others, strict=True) if one.digest == other.digest}
    assert {name.partition("/")[2].rpartition("-")[0] for name in equal} == same | (
        {"first"} if "second" in changed.get("stages", {}) else set()
    )


# -- what is told ----------------------------------------------------------------------------------------------------


def test_figures_of_several_sets_and_their_mean() -> None:
    usual = {"seed": 4, "threads": 1, "measured_on": "validation files", "steps": 9}
    films = {**usual, "accuracy": 0.5, "parameters": 10, "baselines": {"majority class": 0.4}, "peak_memory": None}
    words = {**usual, "f1": 0.2, "accuracy": 0.9, "parameters": 30, "peak_memory": None, "stage_steps": 3}
    found = combined({"films": films, "words": words}, {"films": "accuracy", "words": "f1"})
    assert found == {
        "seed": 4, "threads": 1, "measured_on": "validation files", "parameters": 30, "mean": 0.35,
        "films.accuracy": 0.5, "words.f1": 0.2, "simple": {"majority class": {"films.accuracy": 0.4}},
    }  # fmt: skip


def test_a_row_is_set_against_its_counterpart_and_baselines_are_rows() -> None:
    def results(means: list[float]) -> list[Tree]:
        simple = {"majority class": {"a.accuracy": 0.25}}
        shared = {"threads": 1, "simple": simple, "measured_on": "valid files"}
        return [{"seed": i, "mean": x, "a.accuracy": x, **shared} for i, x in enumerate(means)]

    tuned = Entry(Row("tuned", against="drawn", note="two stages"), results([0.5, 0.6, 0.7]))
    drawn = Entry(Row("drawn"), results([0.4, 0.6, 0.4]))
    table = Table("recipe", TASKS["joint"], {}, [drawn, tuned])
    rows = {row[0]: dict(zip(table.header(), row, strict=True)) for row in table.cells()}
    assert list(rows) == ["tuned", "drawn", "baseline: majority class"]
    over = "mean of the parts over its counterpart, seed by seed"
    assert rows["tuned"][over] == "13.33 ± 15.28, 2 of 3, p = 0.50"  # of 10, 0 and 30; 4 of 8 signs are as far from 0
    assert rows["drawn"][over] == ""
    assert tuned.differences(drawn, "mean") == [pytest.approx(one) for one in (0.1, 0.0, 0.3)]
    assert rows["baseline: majority class"]["a accuracy"] == "25.00 ± 0.00 %"
    assert {"tuned: two stages", "counterparts: of tuned, drawn"} <= set(table.notes())


class Run:
    """A run that is at hand, for the pace."""

    def __init__(self, spec: Spec, fraction: float, whole: float) -> None:
        self.spec, self.fraction, self.whole = spec, fraction, whole


def test_time_left_is_that_of_the_same_row_else_of_its_like() -> None:
    def spec(row: str, seed: int, part: str = "", **limits: float) -> Spec:
        return Spec(row, seed, "", {"training": limits}, {}, "", part=part, is_stage=not part)

    pace = Pace(jobs=2)
    bert, gpt, tuned = spec("bert", 1, steps=100), spec("gpt", 1, steps=10), spec("gpt", 1, "sst2", epochs=2.0)
    assert pace.left([], [bert, gpt]) == 0, "nobody knows"
    assert pace.left([Run(spec("elmo", 1, steps=50), 0.1, 200.0)], [bert]) == (180 + 400) / 2
    pace.add(spec("bert", 0, steps=100), 300.0)
    pace.add(spec("gpt", 0, steps=10), 10.0)
    assert pace.left([], [bert, gpt]) == (300 + 10) / 2
    assert pace.left([Run(bert, 0.0, 0.0)], [gpt]) == (300 + 10) / 2, "it has not begun to learn"
    assert pace.left([], [spec("xlnet", 0, steps=100)]) == 200 / 2  # 3 and 1 seconds a step
    assert pace.left([], [spec("xlnet", 0, minutes=5.0)]) == 300 / 2
    assert pace.left([], [bert, tuned]) == 0, "of the second nobody knows"
    pace.add(spec("bert", 0, "sst2", epochs=4.0), 40.0)
    assert pace.left([], [bert, tuned]) == (300 + 20) / 2


def test_what_comes_after_a_stage_that_failed_fails_and_the_rest_goes_on(tmp_path: Path) -> None:
    stage, tuned = Spec("lm", 1, "stages/lm-1", {}, {}, "", is_stage=True), Spec("a", 1, "runs/a", {}, {}, "")
    lost, kept = replace(tuned, before=stage.folder, row="lost", folder="runs/lost"), replace(tuned, row="kept")
    table = Table("recipe", TASKS["classify"], {}, [Entry(Row("lost")), Entry(Row("kept"))])
    runs = Runs(tmp_path, table, [stage, lost, kept], {"": "accuracy"}, 1, Display(quiet=True))
    assert (runs.next(), runs.next(), runs.next()) == (stage, kept, None), "it waits for its stage"
    runs.ended(stage, "no memory")
    assert runs.next() is None
    assert table.entries[0].failed == {1: "the stage lm before it failed"}
    assert (table.entries[0].waiting, runs.count()) == (0, "0 of 3 runs are done, 2 failed")


@pytest.mark.skipif(os.name != "posix", reason="kills a process, as POSIX has it")
def test_a_comparison_with_stages_goes_on_after_it_was_killed(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text().replace("share = 0.25", "share = 1.0").partition("[stages.second]")[0]
    (tmp_path / "recipe.toml").write_text(text + '[[vary]]\nname = "tuned"\nafter = "first"\n')
    out, done = tmp_path / "out", tmp_path / "out" / "stages" / "first-1" / "result.json"
    command = [sys.executable, "-m", "qkv", "compare", str(tmp_path / "recipe.toml"), "--epochs", "1"]
    process = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.DEVNULL)
    while process.poll() is None and not done.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not list(out.glob("runs/*/result.json")), "it was killed too late to prove anything"
    stamp = done.stat().st_mtime_ns

    found = compare(tmp_path / "recipe.toml", epochs=1, out=out, quiet=True)
    assert done.stat().st_mtime_ns == stamp, "the stage ran once"
    told = (out / "runs" / "tuned-films-1" / "log.txt").read_text()
    assert f"begins with the weights of {out / 'stages' / 'first-1'}" in told
    [entry] = found.table.entries
    [result] = entry.results
    films, words = (
        json.loads((out / "runs" / f"tuned-{part}-1" / "result.json").read_text()) for part in ("films", "words")
    )
    assert (result["films.accuracy"], result["words.f1"]) == (films["accuracy"], words["f1"])
    assert result["mean"] == pytest.approx((films["accuracy"] + words["f1"]) / 2)
    assert (result["stage_steps"], entry.waiting) == (8, 0)
    assert "| baseline: bag of words |" in (out / "table.md").read_text()
    assert (out / "table.png").read_bytes().startswith(b"\x89PNG")
