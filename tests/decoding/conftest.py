"""Small models to search with, and sentences for them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.models import Transformer, TransformerConfig
from qkv.objectives import Asked, Translation
from qkv.text.tokenizer import BOS, EOS, PAD

WORDS = 20  # the vocabulary of the trained model, special tokens included


def draw(count: int, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [torch.randint(4, WORDS, (n,), generator=generator).tolist() for n in lengths]


def pad_to_longest(rows: list[list[int]]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def config(vocab_size: int, **others: object) -> TransformerConfig:
    sizes = {"d_model": 32, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    return TransformerConfig(vocab_size=vocab_size, max_length=128, **(sizes | others))


@pytest.fixture(scope="session")
def model() -> Transformer:
    """Half of the way to copying its source: it has clear choices, of many lengths, and makes mistakes."""
    torch.manual_seed(0)
    model, objective = Transformer(config(WORDS)), Translation()
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(100):
        some = draw(48, step)
        src, tgt = pad_to_longest([[*row, EOS] for row in some]), pad_to_longest([[BOS, *row, EOS] for row in some])
        asked = Asked({}, tgt[:, 1:], int((tgt[:, 1:] != PAD).sum()))
        loss = objective.loss(model(src, tgt[:, :-1]), asked)
        optimiser.zero_grad()
        (loss.total / asked.count).backward()
        optimiser.step()
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
    return pad_to_longest
