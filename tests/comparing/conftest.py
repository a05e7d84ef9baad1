"""A tiny corpus and a recipe for it, whose runs take a second or two."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

WORDS = ["red", "green", "blue", "cat", "dog", "house", "tree", "bird", "fish", "sun", "moon", "star", "road", "hill"]
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
    """Different sentences of made-up words, and in the other language each written backwards."""
    rng = random.Random(7)
    sources: dict[str, None] = {}
    while len(sources) < 120:
        sources[" ".join(rng.choices(WORDS, k=rng.randint(2, 6)))] = None
    tsv = place / "pairs.tsv"
    tsv.write_text("".join(f"{source}\t{source[::-1]}\n" for source in sources), encoding="utf-8")
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
