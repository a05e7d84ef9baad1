"""Each paper by its name: what it is made of is there, and its recipe asks for it."""

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
    if paper.recipe:
        tree = {key: value for key, value in read_settings(paper.recipe).items() if key != "vary"}
        settings = complete(tree, name)
        assert (settings.task, settings.architecture) == (paper.task, model)
        assert all(getattr(settings.model, key) == value for key, value in options.items())
        if isinstance(tree.get("objective", ""), str):  # a table of options is laid over the task's own
            assert settings.objective == asked


def test_every_model_is_of_some_paper() -> None:
    """But for the encoder that any task may begin with untrained."""
    assert {parse_call(paper.model)[0] for paper in PAPERS.values()} == MODELS.keys() - {"transformer_encoder"}
