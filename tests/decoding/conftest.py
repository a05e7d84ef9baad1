"""Small models to search with, and sentences for them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kit import pad as padded
from kit import teach
from qkv.models import Transformer, TransformerConfig
from qkv.text.tokenizer import BOS, EOS

WORDS = 20  # the vocabulary of the trained model, special tokens included


def draw(count: int, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [torch.randint(4, WORDS, (n,), generator=generator).tolist() for n in lengths]


def config(vocab_size: int, **others: object) -> TransformerConfig:
    sizes = {"d_model": 32, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    return TransformerConfig(vocab_size=vocab_size, max_length=128, **(sizes | others))


@pytest.fixture(scope="session")
def model() -> Transformer:
    """Half of the way to copying its source: it has clear choices, of many lengths, and makes mistakes."""
    torch.manual_seed(0)
    model = Transformer(config(WORDS))
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(100):
        some = draw(48, step)
        teach(model, optimiser, padded([*row, EOS] for row in some), padded([BOS, *row, EOS] for row in some))
    return model.eval()


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Transformer]:
    def make(vocab_size: int, end: float = 0.0, seed: int = 0) -> Transformer:
        """With random weights; `end` is added to the logit of </s>."""
        torch.manual_seed(seed)
        model = Transformer(config(vocab_size, tied="none", output_bias=True)).eval()
        with torch.no_grad():
            model.vocabulary.bias[EOS] = end
        return model

    return make


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    """64 sentences that the model was not trained on, each with its </s>."""
    return [[*row, EOS] for row in draw(64, 10**6)]


@pytest.fixture(scope="session")
def pad() -> Callable[[list[list[int]]], Tensor]:
    return padded
