"""What is said below a table is in the figure that its task is compared by, and so are the baselines."""

import pytest

from qkv.comparing.plan import Row
from qkv.comparing.table import Entry, Table
from qkv.tasks import TASKS


@pytest.mark.parametrize(
    ("task", "score", "baseline", "said"),
    [("classify", "accuracy", 0.3, "luck 30.00 %"), ("language_model", "loss", 2.07, "luck 2.070")],
)
def test_notes_are_in_the_figure_of_the_task(task: str, score: str, baseline: float, said: str) -> None:
    results = [
        {"seed": seed, "threads": 1, score: 0.5, "measured_on": "test files", "baselines": {"luck": luck}}
        for seed, luck in ((1, baseline - 0.1), (2, baseline + 0.1))
    ]
    notes = Table("recipe", TASKS[task], {}, [Entry(Row("a"), results)]).notes()
    assert notes[1:] == [f"{score} of the test files", f"baselines on the validation examples: {said}"]


def test_the_lowest_loss_of_a_language_model_is_the_first_row() -> None:
    runs = {"a": 2.0, "b": 1.5, "c": 1.7}
    entries = [Entry(Row(name), [{"seed": 1, "threads": 1, "loss": loss}]) for name, loss in runs.items()]
    assert [row[0] for row in Table("recipe", TASKS["language_model"], {}, entries).cells()] == ["b", "c", "a"]
