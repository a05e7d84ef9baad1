"""Small models, half trained, for comparing what different programs make of the same weights."""

import functools
from pathlib import Path

import pytest
import torch

import kit
from kit import some_rows, stirred, teach_to_copy
from qkv import folder
from qkv.models import Transformer, TransformerConfig
from qkv.text.tokenizer import Tokenizer

TEXTS = [
    "two dogs play in the snow",
    "zwei Hunde spielen im Schnee",
    "a man sleeps on a green sofa",
    "ein Mann schläft",
]
WORDS = range(300, 316)
SIZES = {"d_model": 32, "d_ff": 48, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "max_length": 60}
# What another format may hold, each with something that it could get wrong.
VARIANTS: dict[str, dict[str, object]] = {
    "as in the paper": {},
    "pre-norm, gelu": {"norm": "pre", "activation": "gelu"},
    "halves, untied": {
        "position": "sinusoidal(layout='halves')",
        "tied": "none",
        "attention_bias": True,
        "output_bias": True,
    },
    "learned, swish": {"position": "learned", "activation": "swish", "tied": "decoder"},
    "fairseq's places": {"position": "sinusoidal(layout='fairseq', offset=2)", "norm": "pre", "tied": "none"},
    "no places": {"position": "none", "norm": "pre", "tied": "decoder", "encoder_layers": 1, "activation": "gelu_tanh"},
}


@functools.cache
def half_trained(name: str) -> Transformer:
    """On the way to copying its source: clear choices, many lengths, and mistakes. Every bias is something."""
    torch.manual_seed(0)
    model = stirred(Transformer(TransformerConfig(vocab_size=320, dropout=0.0, **(SIZES | VARIANTS[name]))), 0.02)
    return teach_to_copy(model, lambda step: some_rows(24, step, WORDS), steps=50, rate=5e-3)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return kit.tokenizer(*TEXTS, size=320)


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    """Sentences that no model has seen."""
    return some_rows(30, 10**6, WORDS)


@pytest.fixture(params=list(VARIANTS))
def variant(request: pytest.FixtureRequest) -> Transformer:
    return half_trained(request.param)


@pytest.fixture
def model() -> Transformer:
    return half_trained("as in the paper")


@pytest.fixture
def model_folder(tmp_path: Path, model: Transformer, tokenizer: Tokenizer) -> Path:
    folder.save(tmp_path / "model", model, tokenizer, {"source": "en", "target": "de"})
    return tmp_path / "model"
