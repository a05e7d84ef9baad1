"""Small models, half trained, for comparing what different programs make of the same weights."""

import functools
from pathlib import Path

import pytest
import torch

import kit
from kit import pad, stirred, teach
from qkv import folder
from qkv.models import Transformer, TransformerConfig
from qkv.text.tokenizer import BOS, EOS, Tokenizer

TEXTS = [
    "two dogs play in the snow",
    "zwei Hunde spielen im Schnee",
    "a man sleeps on a green sofa",
    "ein Mann schläft",
]
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


def draw(count: int, seed: int) -> list[list[int]]:
    """Sentences of one to eight tokens out of sixteen."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [torch.randint(300, 316, (n,), generator=generator).tolist() for n in lengths]


@functools.cache
def half_trained(name: str) -> Transformer:
    """On the way to copying its source: clear choices, many lengths, and mistakes. Every bias is something."""
    torch.manual_seed(0)
    model = stirred(Transformer(TransformerConfig(vocab_size=320, dropout=0.0, **(SIZES | VARIANTS[name]))), 0.02)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(50):
        some = draw(24, step)
        teach(model, optimiser, pad([*row, EOS] for row in some), pad([BOS, *row, EOS] for row in some))
    return model.eval()


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return kit.tokenizer(*TEXTS, size=320)


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    """Sentences that no model has seen."""
    return draw(30, 10**6)


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
