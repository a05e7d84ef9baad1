"""Settings that are chosen for a person: they fit the corpus, they complete, and what a person asks for wins."""

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from qkv.config import merge, parse_call
from qkv.models import parameter_count
from qkv.tasks.translation import PairsConfig, Translate
from qkv.training.settings import TrainingConfig, complete

CPU = torch.device("cpu")
SIZES = [20, 1_000, 29_000, 200_000, 2_000_000, 20_000_000]


@dataclass(frozen=True)
class Surveyed:
    """What is known of a corpus when settings are chosen for it."""

    train: range
    characters: int


def chosen(pairs: int, limits: dict[str, float] | None = None, device: torch.device = CPU, **more: object) -> Any:
    survey: Any = Surveyed(range(pairs), pairs * 120)
    tree = Translate(PairsConfig()).choose(survey, device, TrainingConfig(**(limits or {})))
    return complete(merge({"train": ["pairs.tsv"]}, tree, more), "settings")


@pytest.mark.parametrize("device", [CPU, torch.device("cuda")], ids=str)
def test_more_data_never_gets_a_smaller_model_or_more_dropout(device: torch.device) -> None:
    settings = [chosen(pairs, device=device) for pairs in SIZES]
    sizes = [parameter_count(one.model) for one in settings]
    dropouts = [one.model.dropout for one in settings]
    batches = [one.data.batch_tokens for one in settings]
    assert sizes == sorted(sizes)
    assert dropouts == sorted(dropouts, reverse=True)
    assert batches == sorted(batches)


@pytest.mark.parametrize("pairs", SIZES)
def test_a_run_ends_by_itself_unless_it_has_a_limit(pairs: int) -> None:
    assert chosen(pairs).training.epochs > 0
    for limit in ("steps", "epochs", "minutes"):
        assert chosen(pairs, {limit: 5}).training.epochs == 0


def test_a_small_corpus_gets_a_small_vocabulary_and_a_short_warm_up() -> None:
    small, large = chosen(20), chosen(29_000)
    assert small.data.vocab_size < large.data.vocab_size
    assert small.training.schedule == "cosine(warmup=10)"
    assert large.training.schedule == "cosine(warmup=400)"
    assert (small.training.validate_every, large.training.validate_every) == (100, 0)


@pytest.mark.parametrize(
    ("limits", "warmup"),
    [({"steps": 300}, 30), ({"steps": 100_000}, 400), ({"epochs": 2.0}, 45), ({"epochs": 2.0, "steps": 300}, 30),
     ({"epochs": math.inf}, 400), ({"steps": 3}, 10), ({"minutes": 1.0}, 400)],
)  # fmt: skip
def test_a_short_run_gets_a_short_warm_up(limits: dict[str, float], warmup: int) -> None:
    """29,000 pairs are 226 steps an epoch."""
    assert chosen(29_000, limits).training.schedule == f"cosine(warmup={warmup})"


def test_what_a_person_asks_for_wins() -> None:
    asked = chosen(29_000, model={"d_model": 64, "n_heads": 2}, training={"learning_rate": 0.5})
    assert (asked.model.d_model, asked.model.n_heads, asked.training.learning_rate) == (64, 2, 0.5)
    assert asked.model.encoder_layers == 4  # the rest of the preset stays


def test_the_number_of_steps_is_about_right_for_multi30k() -> None:
    """29,000 pairs of 3.9 M characters: at 2,048 tokens, epochs have 262 batches (6,000 sub-words). The warm-up is a
    tenth of the run, so that ten epochs of it tell how many are expected."""
    survey: Any = Surveyed(range(29_000), 3_911_636)
    schedule = Translate(PairsConfig()).choose(survey, CPU, TrainingConfig(epochs=1.0))["training"]["schedule"]
    assert 0.7 < 10 * parse_call(schedule)[1]["warmup"] / 262 < 1.3
