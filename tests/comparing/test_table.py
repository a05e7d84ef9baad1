"""The table: means and spreads worked by hand, the best row first, what failed and what waits told."""

import json
import re

import pytest

from qkv.comparing.plan import Row
from qkv.comparing.table import Entry, Table, by_sign_flips
from qkv.tasks import TASKS


def result(seed: int, bleu: float, **more: float) -> dict[str, object]:
    return {
        "seed": seed, "bleu": bleu, "loss": 2.0 + bleu / 100, "perplexity": 7.5, "parameters": 2_070_000,
        "training_speed": 5100.4, "decoding_speed": 900.0, "peak_memory": 666_400_000, "threads": 1,
        "bleu_signature": "a|b", "measured_on": "valid files", **more,
    }  # fmt: skip


def table(*entries: Entry, task: str = "translate", **more: dict[str, str]) -> Table:
    return Table("recipe", TASKS[task], {"beam": 4, "alpha": 0.6}, entries, **more)


def read(markdown: str) -> list[dict[str, str]]:
    """The rows of the table as a reader of Markdown sees them."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_mean_and_spread_of_three_seeds() -> None:
    # 30, 31 and 35: the mean is 32, the squares of what is off are 4 + 1 + 9 = 14, and sqrt(14 / 2) = 2.6458
    entry = Entry(Row("a"), [result(1, 30.0), result(2, 31.0), result(3, 35.0)])
    found = table(entry)
    assert entry.mean("bleu") == pytest.approx(32.0)
    assert entry.spread("bleu") == pytest.approx(7**0.5)
    row = read(found.markdown())[0]
    assert row["BLEU"] == "32.00 ± 2.65"
    assert (row["parameters"], row["peak memory"]) == ("2.07 M", "666 ± 0 MB")
    assert any("over seeds 1, 2, 3" in note for note in found.notes())
    assert found.tree()["rows"][0]["figures"]["bleu"] == {"mean": pytest.approx(32.0), "spread": pytest.approx(7**0.5)}


def test_rows_of_other_examples_have_other_baselines() -> None:
    """A row's is the mean of its runs, 0.6 and 0.7; where another row has 0.5, no mean of both says anything."""
    few, many = (
        Entry(Row(name), [{**result(seed, 30.0), "accuracy": 0.9, "baselines": {"bag of words": bag, "majority": 0.5}}
                          for seed, bag in ((1, low), (2, high))])
        for name, low, high in (("few", 0.4, 0.6), ("many", 0.6, 0.7))
    )  # fmt: skip
    said = "baselines on the validation examples: bag of words {}, majority 50.00 %"
    assert said.format("50.00 to 65.00 %") in table(few, many, task="classify").notes()
    assert said.format("65.00 %") in table(many, task="classify").notes()


def test_rows_are_paired_with_the_best_by_seed() -> None:
    """Of 3, 1 and -1 the mean is 1, the deviation 2, and 6 of the 8 ways to sign them sum to at least 3: 3 + 1 + 1,
    3 + 1 - 1 and 3 - 1 + 1, and these the other way round. Seed 4 has no partner."""
    best = Entry(Row("a"), [result(seed, bleu) for seed, bleu in ((3, 33.0), (1, 32.0), (2, 20.0))])
    other = Entry(Row("b"), [result(seed, bleu) for seed, bleu in ((1, 31.0), (2, 21.0), (3, 30.0), (4, 0.0))])
    rows = read(table(other, best).markdown())
    assert [row["BLEU behind the best, seed by seed"] for row in rows] == ["", "1.00 ± 2.00, 2 of 3, p = 0.75"]
    assert by_sign_flips([1.0, 2.0, 3.0]) == by_sign_flips([-1.0, -2.0, -3.0]) == 2 / 8
    assert by_sign_flips([1.0, -1.0]) == 1.0
    assert by_sign_flips([1.0] * 40) == 2 / 2**16
    losses = [
        Entry(Row(name), [result(seed, loss=loss, bleu=0.0) for seed in (1, 2)]) for name, loss in (("c", 2), ("d", 1))
    ]
    assert losses[0].behind(losses[1], "loss") == "1.000 ± 0.000, 2 of 2, p = 0.50"


def test_one_seed_claims_no_spread() -> None:
    found = table(Entry(Row("a"), [result(1, 30.0)]))
    assert "±" not in found.markdown()
    assert found.tree()["rows"][0]["figures"]["bleu"] == {"mean": 30.0, "spread": None}


def test_the_best_is_first_and_rows_without_a_score_are_last_and_say_why() -> None:
    entries = [
        Entry(Row("broken"), failed={2: "too wide"}),
        Entry(Row("low", published="BLEU 9"), [result(1, 10.0)], failed={2: "no memory"}),
        Entry(Row("later"), waiting=2, left_out=["norm"]),
        Entry(Row("high | wide"), [result(1, 30.0), result(2, 20.0)]),
    ]
    found = table(*entries, impossible={"odd": "7 does not divide 16"})
    rows = read(found.markdown())
    assert [row["row"] for row in rows] == ["high | wide", "low", "broken", "later"]
    assert [row["parameters"] for row in rows] == ["2.07 M", "2.07 M", "failed", "waiting"]
    assert [row["published"] for row in rows] == ["", "BLEU 9", "", ""]
    notes = "\n".join(found.notes())
    for said in ("broken, seed 2: failed: too wide", "low, seed 2: failed: no memory",
                 "later: runs still to be done: 2",
                 "later: this architecture has no norm", "odd: left out, cannot be built: 7 does not divide 16",
                 "BLEU of the valid files, beam 4, alpha 0.6: a|b"):  # fmt: skip
        assert said in notes
    assert json.loads(json.dumps(found.tree())) == found.tree()


def test_only_what_was_measured_is_a_column() -> None:
    some = {**result(1, 0.0), "accuracy": 0.875, "peak_memory": None}
    del some["bleu"]
    found = table(Entry(Row("worse"), [{**some, "accuracy": 0.5}]), Entry(Row("better"), [some]), task="classify")
    assert found.header() == ["row", "parameters", "loss", "perplexity", "accuracy", *found.header()[5:]]
    assert not {"BLEU", "peak memory"} & set(found.header())
    assert [row["accuracy"] for row in read(found.markdown())] == ["87.50 %", "50.00 %"]


def test_what_needs_no_model_is_a_note_and_no_column() -> None:
    of_nothing = {"lead_rouge_1": 27.3, "lead_rouge_l": 21.8, "oracle_rouge_l": 38.2}
    entries = [
        Entry(Row(name), [{**result(1, 0.0), "rouge_l": score, **of_nothing}])
        for name, score in (("a", 9.0), ("b", 8.0))
    ]
    found = table(*entries, task="summarise")
    assert [title for title in found.header() if "ROUGE" in title][:1] == ["ROUGE-L"]
    assert not [title for title in found.header() if "sentence" in title]
    said = "first sentence ROUGE-1 27.30, first sentence ROUGE-L 21.80, best sentence ROUGE-L 38.20"
    assert found.notes().count(f"beside them, without a model: {said}") == 1


def test_speeds_of_different_threads_are_not_to_be_compared() -> None:
    told = table(Entry(Row("a"), [result(1, 1.0)]), Entry(Row("b"), [result(1, 1.0, threads=2)])).notes()
    assert any("1 or 2 threads" in note for note in told)


def test_before_any_run_there_is_a_table_too() -> None:
    found = table(Entry(Row("a"), waiting=1))
    assert found.header() == ["row", "parameters", "loss", "BLEU", "peak memory"]
    assert read(found.markdown())[0]["parameters"] == "waiting"


def test_each_part_of_a_mixture_has_a_column() -> None:
    """Also where a row has that part alone; its loss has none."""
    both = {
        "seed": 1,
        "mean": 0.7,
        "a.accuracy": 0.8,
        "b.pearson": 0.6,
        "a.loss": 0.3,
        "threads": 1,
        "measured_on": "x",
    }
    alone = {"seed": 1, "mean": 0.9, "b.pearson": 0.9, "threads": 1, "measured_on": "x"}
    found = table(Entry(Row("together"), [both]), Entry(Row("b alone"), [alone]), task="joint")
    first, second = read(found.markdown())
    names = ("row", "mean of the parts", "a accuracy", "b Pearson correlation")
    assert [first[name] for name in names] == ["b alone", "90.00 %", "", "0.900"]
    assert [second[name] for name in names] == ["together", "70.00 %", "80.00 %", "0.600"]
    assert not any("loss" in name for name in first)


def test_points_of_learning_curves_are_the_scores_of_their_runs() -> None:
    points = (("a", "tuned", 100), ("b", "tuned", 500), ("c", "", 0), ("d", "new", 5))
    rows = [Row(name, curve=curve, examples=examples) for name, curve, examples in points]
    entries = [Entry(row, [result(1, 10.0 + i), result(2, 20.0 + i)] if i < 3 else []) for i, row in enumerate(rows)]
    assert table(*entries).learning() == {"tuned": {100: [10.0, 20.0], 500: [11.0, 21.0]}}
