"""A tiny corpus and a recipe for it, whose runs take a second or two."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kit import some_pairs, write_tsv

RECIPE = """published = "0: nothing was published of this"
source = "en"
target = "ne"
train = ["{tsv}"]

[data]
vocab_size = 340
batch_tokens = 400
seed = 5

[model]
d_model = 16
d_ff = 32
n_heads = 2
encoder_layers = 1
decoder_layers = 1
norm = "pre"

[training]
steps = {steps}
schedule = "constant"
checkpoint_steps = 5
bleu_sentences = 0
threads = 1
precision = "float32"
"""


def written(place: Path, steps: int, more: str = "") -> Path:
    tsv = write_tsv(place / "pairs.tsv", some_pairs(120))
    recipe = place / "recipe.toml"
    recipe.write_text(RECIPE.format(tsv=tsv, steps=steps) + more, encoding="utf-8")
    return recipe


@pytest.fixture(scope="session")
def write_recipe() -> Callable[..., Path]:
    return written


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return written(tmp_path, steps=10)


@pytest.fixture
def long_recipe(tmp_path: Path) -> Path:
    """120 steps: long enough to be stopped on its way."""
    return written(tmp_path, steps=120)
