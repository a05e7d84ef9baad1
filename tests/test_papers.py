"""Each paper by its name: what it is made of is there, and it has a recipe, which asks for it."""

import pytest

from qkv.config import parse_call
from qkv.models import MODELS
from qkv.objectives import in_full
from qkv.papers import PAPERS
from qkv.tasks import TASKS
from qkv.training.settings import complete, read_settings


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_is_made_of_what_there_is(name: str) -> None:
    paper = PAPERS[name]
    model, options = parse_call(paper.model)
    assert MODELS[model].config_class(**options)
    assert model in TASKS[paper.task].models()
    asked = in_full(paper.objective)
    tree = {key: value for key, value in read_settings(paper.recipe).items() if key != "vary"}
    settings = complete(tree, name)
    assert (settings.task, settings.architecture) == (paper.task, model)
    assert all(getattr(settings.model, key) == value for key, value in options.items())
    if isinstance(tree.get("objective", ""), str):  # a table of options is laid over the task's own
        assert settings.objective == asked


def test_translators_before_the_transformer_learn_by_the_same_settings() -> None:
    """As their recipes say: all but the architecture, its sizes and what was published of it."""
    first, *others = (
        {key: value for key, value in read_settings(PAPERS[name].recipe).items()
         if key not in ("published", "architecture", "model")}
        for name in ("bahdanau", "luong", "convs2s", "ssru")
    )  # fmt: skip
    assert others == [first] * 3


def test_every_model_is_of_some_paper() -> None:
    """But for the encoder that any task may begin with untrained."""
    assert {parse_call(paper.model)[0] for paper in PAPERS.values()} == MODELS.keys() - {"transformer_encoder"}


NO_PRE_TRAINING = {  # what each asks instead
    **dict.fromkeys(("bahdanau", "luong", "convs2s", "transformer", "ssru"), "a translation"),
    **dict.fromkeys(("han", "aoa", "biaffine", "tdmca"), "an answer, a tree or a summary, by weights as drawn"),
    **dict.fromkeys(("bigbird", "linformer"), "BERT's own question, of longer texts"),
    "transe": "what entities of a graph are to each other; ERNIE of Tsinghua begins with them",
    "llama": "GPT-2's own question, of another network; and it came four years after the rest",
}


def test_every_paper_stands_in_the_table_of_the_family_or_is_none_of_it() -> None:
    """tests/comparing holds the recipe of that table to these names."""
    rows = [paper.row for paper in PAPERS.values() if paper.row]
    assert len({*rows}) == len(rows)
    assert {name for name, paper in PAPERS.items() if not paper.row} == NO_PRE_TRAINING.keys()
