"""A model that is trained on running text with no recipe is asked what its paper asks, in its paper's sub-words."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

import qkv
from corpora import CORPORA
from qkv.models import MODELS
from qkv.objectives import in_full, objective
from qkv.tasks import TASKS
from qkv.text.tokenizer import TOKENIZERS

OWN = {  # its task, and its tokenizer
    "elmo": ("fill", "words"), "xlnet": ("fill", "unigram"), "unilm": ("fill", "bpe"),
    "awd_lstm": ("language_model", "byte_bpe"),
}  # fmt: skip


@pytest.mark.parametrize("architecture", OWN)
def test_nothing_need_be_said(architecture: str, tmp_path: Path) -> None:
    task, tokenizer = OWN[architecture]
    settings: Any = {**CORPORA[task].settings(steps=1), "architecture": architecture}
    if architecture in ("elmo", "awd_lstm"):
        settings["model"] = {"d_model": 16, "max_length": 32}
    qkv.train(CORPORA[task].write(tmp_path), task=task, out=tmp_path / "model", **settings)
    recipe = tomllib.loads((tmp_path / "model" / "training" / "recipe.toml").read_text())
    assert recipe["objective"] == in_full(MODELS[architecture].learns_by)
    assert recipe["data"]["tokenizer"] == tokenizer
    assert qkv.load(tmp_path / "model")


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_names_is_in_the_tables_and_fine_tuning_does_not_ask_it(name: str) -> None:
    model = MODELS[name]
    if model.learns_by:
        objective(model.learns_by)
    assert model.sub_words in ("", *TOKENIZERS)
    if name in TASKS["tag"].models():
        assert TASKS["tag"].asked_of(model) == "tags"
