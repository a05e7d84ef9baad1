"""Settings: what is wrong is named, and a run's recipe.toml reads back as the very settings it was written from."""

import dataclasses
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qkv.training.toml import to_toml

from qkv.config import read_toml, to_tree
from qkv.errors import InputError
from qkv.models import PRESETS, TransformerConfig
from qkv.objectives import Translation
from qkv.text.doctor import Rules
from qkv.training.settings import DataConfig, Settings, TrainingConfig, check, complete

BAD: list[tuple[dict[str, Any], str]] = [
    ({"sorce": "en"}, "unknown key 'sorce'; did you mean 'source'?"),
    ({"training": {"learning_rat": 1.0}}, "unknown key 'training.learning_rat'; did you mean 'learning_rate'?"),
    ({"data": {"doctor": {"max_rato": 2.0}}}, "unknown key 'data.doctor.max_rato'; did you mean 'max_ratio'?"),
    ({"model": {"d_modell": 8}}, "unknown key 'model.d_modell'; did you mean 'd_model'?"),
    ({"objective": {"smoothing": 0.1}}, "unknown key 'objective.smoothing'; did you mean 'smoothing_form'?"),
    ({"model": {"preset": "bsae"}}, "unknown preset 'bsae'; did you mean 'base'?"),
    ({"model": {"preset": ["base"]}}, "unknown preset ['base']; "),
    ({"architecture": "transfomer"}, "unknown architecture 'transfomer'; did you mean 'transformer'?"),
    ({"objective_name": "translate"}, "unknown objective_name 'translate'; did you mean 'translation'?"),
    ({"model": "base"}, "model is 'base'; it must be a table of settings"),
    ({"training": 3}, "training is 3; it must be a table of settings"),
    ({"training": {"steps": "many"}}, "training.steps: Input should be a valid integer (given: 'many')"),
    ({"training": {"steps": 1.5}}, "training.steps: Input should be a valid integer"),
    ({"training": {"learning_rate": "1e-3"}}, "training.learning_rate: Input should be a valid number (given: '1e-3')"),
    (
        {"training": {"optimizer": "sgd"}},
        "training.optimizer: Input should be 'adamw', 'adam' or 'muon' (given: 'sgd')",
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
    ({"training": {"best_by": "accuracy"}}, "training.best_by is accuracy, but a translator has loss and bleu; give"),
    ({"data": {"batch_tokens": 0}}, "data: batch_tokens"),
    ({"data": {"vocab_size": 10**12}}, "data: vocab_size must be at most 10,000,000, not 1000000000000"),
    ({"training": {"schedule": "noam(d_model=0)"}}, "training: noam needs a d_model of at least 1, not 0"),
    ({"data": {"seed": -1}}, "data: seed must be a number from 0, not -1"),
    ({"data": {"doctor": {"max_ratio": 0.5}}}, "max_ratio is 0.5, but no ratio is below 1"),
    ({"model": {"d_model": 10, "n_heads": 4}}, "model: d_model=10 is not divisible by n_heads=4"),
    ({"model": {"dropout": 1.0}}, "model: dropout must be at least 0 and below 1, not 1.0"),
    ({"objective": {"label_smoothing": 1.0}}, "objective: label_smoothing must be at least 0 and below 1, not 1.0"),
]


@pytest.mark.parametrize(("tree", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_what_is_wrong_is_named(tree: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        complete({"train": ["a.tsv"], **tree}, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_to_train_on_must_be_named() -> None:
    with pytest.raises(InputError, match="train: Field required"):
        complete({}, "my.toml")


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
COUNT = st.integers(1, 2**62)
SHARE = st.floats(0, 1, exclude_max=True)
POSITIVE = st.floats(min_value=1e-300, allow_infinity=False)
SETTINGS = st.builds(
    Settings,
    published=TEXT, source=TEXT, target=TEXT, train=st.lists(TEXT, max_size=3), valid=st.lists(TEXT, max_size=2),
    data=st.builds(
        DataConfig, tokenizer=TEXT, vocab_size=st.integers(1, 10**7), max_length=COUNT, held_out=st.integers(1, 1000),
        seed=st.integers(0, 2**63 - 1),
        doctor=st.builds(Rules, max_ratio=st.floats(1, 1e9), drop_copies=st.booleans(), max_dropped=SHARE),
    ),
    model=st.builds(
        TransformerConfig, vocab_size=COUNT, n_heads=st.just(1), d_model=COUNT, dropout=SHARE, position=TEXT,
        norm=st.sampled_from(["pre", "post"]), attention_bias=st.booleans(), tied=st.sampled_from(["all", "none"]),
    ),
    objective=st.builds(Translation, label_smoothing=SHARE),
    training=st.builds(
        TrainingConfig, learning_rate=POSITIVE, epsilon=POSITIVE, weight_decay=POSITIVE, minutes=POSITIVE,
        epochs=st.floats(0, 1e18), steps=COUNT, beta1=SHARE, device=TEXT, optimizer=st.sampled_from(["adam", "muon"]),
        schedule=st.sampled_from(["noam", "cosine(warmup=3, floor=0.1)"]),
    ),
)  # fmt: skip


@given(given_settings=SETTINGS, files=st.dictionaries(TEXT, TEXT, max_size=3))
@settings(max_examples=60, deadline=None)
def test_recipe_toml_reads_back_as_the_same_settings(given_settings: Settings, files: dict[str, str]) -> None:
    tree = tomllib.loads(to_toml(given_settings, files))
    assert tree.pop("files", {}) == files
    assert complete(tree, "recipe.toml") == given_settings


def test_every_setting_is_in_the_recipe() -> None:
    """Also those that nobody gave: a later default must not change an old recipe."""
    tree = tomllib.loads(to_toml(Settings(train=["a"]), {}))
    assert tree == to_tree(Settings(train=["a"]))
    for section in ("data", "model", "objective", "training"):
        kind = type(getattr(Settings(train=[]), section))
        assert tree[section].keys() == {field.name for field in dataclasses.fields(kind)}
