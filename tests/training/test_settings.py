"""Settings: what is wrong is named, and a run's recipe.toml reads back as the very settings it was written from."""

import dataclasses
import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.config import parse_call, read_toml, to_tree
from qkv.errors import InputError
from qkv.models import PRESETS, TransformerConfig
from qkv.objectives import OBJECTIVES
from qkv.tasks import TASKS
from qkv.tasks.translation import PairsConfig
from qkv.text.doctor import Rules
from qkv.training.settings import Settings, TrainingConfig, check, complete, modern

BAD: list[tuple[dict[str, Any], str]] = [
    ({"sorce": "en"}, "unknown key 'sorce'; did you mean 'source'?"),
    ({"zzz": "en"}, "unknown key 'zzz'; known: architecture, corpus, data"),
    ({"data": {"sorce": "en"}}, "unknown key 'data.sorce'; did you mean 'source'?"),
    ({"tas": "classify"}, "unknown key 'tas'; did you mean 'task'?"),
    ({"task": "clasify"}, "unknown task 'clasify'; did you mean 'classify'?"),
    ({"training": {"learning_rat": 1.0}}, "unknown key 'training.learning_rat'; did you mean 'learning_rate'?"),
    ({"data": {"doctor": {"max_rato": 2.0}}}, "unknown key 'data.doctor.max_rato'; did you mean 'max_ratio'?"),
    ({"model": {"d_modell": 8}}, "unknown key 'model.d_modell'; did you mean 'd_model'?"),
    ({"objective": {"smoothing": 0.1}}, "objective: 'translation' has no option 'smoothing'; did you mean"),
    ({"model": {"preset": "bsae"}}, "unknown preset 'bsae'; did you mean 'base'?"),
    ({"model": {"preset": ["base"]}}, "unknown preset ['base']; "),
    ({"architecture": "transfomer"}, "'transfomer' is no model of the task 'translate'; did you mean"),
    ({"objective_name": "translate"}, "objective: unknown name 'translate'; did you mean 'translation'?"),
    ({"objective": "clases"}, "objective: unknown name 'clases'; did you mean 'classes'?"),
    ({"objective": 3}, 'objective is 3; name one, such as "translation(label_smoothing=0.1)"'),
    ({"model": "base"}, "model is 'base'; it must be a table of settings"),
    ({"training": 3}, "training is 3; it must be a table of settings"),
    ({"training": {"steps": "many"}}, "training.steps: Input should be a valid integer (given: 'many')"),
    ({"training": {"steps": 1.5}}, "training.steps: Input should be a valid integer"),
    ({"training": {"learning_rate": "1e-3"}}, "training.learning_rate: Input should be a valid number (given: '1e-3')"),
    (
        {"training": {"optimizer": "lion"}},
        "'adamw', 'adam', 'muon', 'adamax', 'adagrad', 'asgd' or 'sgd' (given: 'lion')",
    ),
    ({"data": {"doctor": {"drop_copies": 1}}}, "data.doctor.drop_copies: Input should be a valid boolean (given: 1)"),
    ({"train": "pairs.tsv"}, "train: Input should be a valid array (given: 'pairs.tsv')"),
    ({"train": [1]}, "train.0: Input should be a valid string (given: 1)"),
    ({"training": {"steps": -1}}, "training: steps cannot be negative, but it is -1"),
    ({"training": {"checkpoint_minutes": -1.0}}, "training: checkpoint_minutes cannot be negative, but it is -1.0"),
    ({"training": {"clip": float("nan")}}, "training: clip cannot be negative, but it is nan"),
    ({"training": {"learning_rate": 0.0}}, "training: learning_rate must be above 0, not 0.0"),
    ({"training": {"beta2": 1.0}}, "training: beta1 and beta2 must be at least 0 and below 1, not 0.9 and 1.0"),
    ({"training": {"accumulate": 0}}, "training: accumulate and keep must be at least 1"),
    ({"training": {"schedule": "cosin"}}, "training: unknown name 'cosin'; did you mean 'cosine'?"),
    ({"training": {"schedule": "cosine(warm=1)"}}, "'cosine' has no option 'warm'; did you mean 'warmup'?"),
    ({"training": {"average": "last(n=0)"}}, "an average of the last n checkpoints needs n of at least 1, not 0"),
    ({"training": {"best_by": "bleu", "bleu_sentences": 0}}, "best_by is bleu, but bleu_sentences is 0"),
    ({"training": {"best_by": "accuracy"}}, "best_by is accuracy, but translate is measured by loss and bleu; give"),
    ({"data": {"batch_tokens": 0}}, "data: batch_tokens"),
    ({"data": {"vocab_size": 10**12}}, "data.vocab_size must be at most 10,000,000, not 1,000,000,000,000"),
    ({"training": {"schedule": "noam(d_model=0)"}}, "training: noam needs a d_model of at least 1, not 0"),
    (
        {"training": {"optimizer": "muon", "bias_correction": False}},
        "training: bias_correction = false is for adam and",
    ),
    ({"data": {"seed": -1}}, "data: seed must be a number from 0, not -1"),
    ({"data": {"doctor": {"max_ratio": 0.5}}}, "max_ratio is 0.5, but no ratio is below 1"),
    ({"model": {"d_model": 10, "n_heads": 4}}, "model: d_model=10 is not divisible by n_heads=4"),
    ({"model": {"dropout": 1.0}}, "model: dropout must be at least 0 and below 1, not 1.0"),
    ({"objective": {"label_smoothing": 1.0}}, "label_smoothing must be at least 0 and below 1, not 1.0"),
]


@pytest.mark.parametrize(("tree", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_what_is_wrong_is_named(tree: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        complete({"train": ["a.tsv"], **tree}, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_date_where_a_number_belongs_is_refused(tmp_path: Any) -> None:
    """TOML has dates, JSON has none: they must not fall through."""
    (tmp_path / "r.toml").write_text('train = ["a"]\n[training]\nsteps = 2024-01-01\n')
    with pytest.raises(InputError, match=r"training\.steps: Input should be a valid integer"):
        complete(read_toml(tmp_path / "r.toml"), "r.toml")


def test_unknown_keys_are_refused_before_anything_else_is_looked_at() -> None:
    with pytest.raises(InputError, match="unknown key"):
        check({"model": {"d_modle": 8}, "training": {"steps": "not looked at yet"}}, "settings")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_gives_sizes_and_other_keys_change_them(preset: str) -> None:
    model = complete({"train": ["a"], "model": {"preset": preset, "d_ff": 24}}, "x").model
    assert {key: getattr(model, key) for key in PRESETS[preset]} == {**PRESETS[preset], "d_ff": 24}


def test_a_whole_number_may_stand_for_a_decimal_one() -> None:
    assert complete({"train": ["a"], "training": {"minutes": 5}}, "x").training.minutes == 5.0


# -- recipe.toml -----------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COUNT = st.integers(1, 1000)
SHARE = st.floats(0, 1, exclude_max=True)
POSITIVE = st.floats(min_value=1e-300, max_value=1e9)
SETTINGS = st.builds(
    Settings,
    task=st.just("translate"), architecture=st.just("transformer"), published=TEXT,
    train=st.lists(TEXT, max_size=3), valid=st.lists(TEXT, max_size=2), corpus=TEXT, start=TEXT,
    objective=st.builds("translation(label_smoothing={}, smoothing_form='torch', r_drop=0.5)".format, SHARE),
    data=st.builds(
        PairsConfig, source=TEXT, target=TEXT, tokenizer=TEXT, vocab_size=st.integers(1, 10**7), max_length=COUNT,
        held_out=st.integers(1, 1000), seed=st.integers(0, 2**63 - 1),
        doctor=st.builds(Rules, max_ratio=st.floats(1, 1e9), drop_copies=st.booleans(), max_dropped=SHARE),
    ),
    model=st.builds(
        TransformerConfig, vocab_size=COUNT, n_heads=st.just(1), d_model=COUNT, dropout=SHARE, position=TEXT,
        norm=st.sampled_from(["pre", "post"]), attention_bias=st.booleans(), tied=st.sampled_from(["all", "none"]),
    ),
    training=st.builds(
        TrainingConfig, learning_rate=POSITIVE, epsilon=POSITIVE, weight_decay=POSITIVE, minutes=POSITIVE,
        epochs=st.floats(0, 1e9), steps=COUNT, beta1=SHARE, device=TEXT, optimizer=st.sampled_from(["adam", "muon"]),
        schedule=st.sampled_from(["noam", "cosine(warmup=3, floor=0.1)"]),
    ),
)  # fmt: skip


@given(given_settings=SETTINGS)
@settings(max_examples=60, deadline=None)
def test_recipe_toml_reads_back_as_the_same_settings(given_settings: Settings) -> None:
    assert complete(tomllib.loads(tomli_w.dumps(to_tree(given_settings))), "recipe.toml") == given_settings


@pytest.mark.parametrize("task", TASKS)
def test_every_setting_is_in_the_recipe(task: str) -> None:
    """Also those that nobody gave: a later default must not change an old recipe."""
    whole = complete({"task": task, "train": ["a"]}, "settings")
    tree = tomllib.loads(tomli_w.dumps(to_tree(whole)))
    assert tree.keys() == {field.name for field in dataclasses.fields(Settings)}
    for section in ("data", "model", "training"):
        assert tree[section].keys() == {field.name for field in dataclasses.fields(getattr(whole, section))}
    name, options = parse_call(tree["objective"])
    assert options.keys() == {field.name for field in dataclasses.fields(OBJECTIVES[name])}
    assert complete(tree, "recipe.toml") == whole


# -- names of earlier versions ----------------------------------------------------------------------------------------


def test_languages_beside_the_sections_are_those_of_the_data() -> None:
    settings = complete({"train": ["a"], "source": "en", "target": "de", "data": {"seed": 3}}, "x")
    assert (settings.data.source, settings.data.target, settings.data.seed) == ("en", "de", 3)
    assert complete({"train": ["a"], "source": "en", "data": {"source": "fr"}}, "x").data.source == "fr"


def test_a_table_of_the_objective_is_laid_over_its_text() -> None:
    assert modern({"objective": {"label_smoothing": 0.0}})["objective"] == "translation(label_smoothing=0.0)"
    old = {"objective_name": "translation", "objective": {"label_smoothing": 0.2, "smoothing_form": "torch"}}
    assert modern(old) == {"objective": "translation(label_smoothing=0.2, smoothing_form='torch')"}
    stored = "translation(label_smoothing=0.3, r_drop=1.0)"
    laid = modern({"objective": {"r_drop": 0.0}}, "x", stored)["objective"]
    assert laid == "translation(label_smoothing=0.3, r_drop=0.0)"
    assert modern({"task": "classify", "objective": {"label_smoothing": 0.1}})["objective"].startswith("classes(")
    assert modern({"objective": "translation"}) == {"objective": "translation"}


def test_an_old_name_is_taken_and_the_new_one_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = modern({"objective": {"agreement": 2.0}}, "my.toml")
    assert found == {"objective": "translation(r_drop=2.0)"}
    assert capsys.readouterr().err == "my.toml: objective.agreement is called objective.r_drop now\n"
    modern(found, "my.toml")
    assert capsys.readouterr().err == ""


def test_what_is_given_is_left_as_it_was() -> None:
    tree = {"source": "en", "data": {"seed": 1}, "objective": {"label_smoothing": 0.1}}
    modern(tree)
    assert tree == {"source": "en", "data": {"seed": 1}, "objective": {"label_smoothing": 0.1}}
