"""Small models to search with and sentences for them: the fixtures of tests/decoding and tests/engines."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from kit import pad as padded
from kit import some_rows, teach_to_copy
from qkv.models import Transformer, TransformerConfig
from qkv.text.tokenizer import EOS

WORDS = 20  # the vocabulary of the trained model, special tokens included


def config(vocab_size: int, **others: object) -> TransformerConfig:
    sizes = {"d_model": 32, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    return TransformerConfig(vocab_size=vocab_size, max_length=128, **(sizes | others))


@pytest.fixture(scope="session")
def model() -> Transformer:
    """Half of the way to copying its source: it has clear choices, of many lengths, and makes mistakes."""
    torch.manual_seed(0)
    model = Transformer(config(WORDS))
    return teach_to_copy(model, lambda step: some_rows(48, step, range(4, WORDS)), steps=100, rate=4e-3)


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
    return [[*row, EOS] for row in some_rows(64, 10**6, range(4, WORDS))]


@pytest.fixture(scope="session")
def pad() -> Callable[[list[list[int]]], Tensor]:
    return padded


def some_stay(data: st.DataObject, seen: Any, texts: list[int], pasts: list[list[list[int]]], beam: int) -> Any:
    """Any course of a search: some texts leave, and each hypothesis of those that stay goes on from any of its text's.

    Of each text there is its number, and the tokens of all its hypotheses; both are given back as `seen` has them now.
    """
    width = len(pasts[0])
    staying = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, unique=True).map(sorted))
    parents = [data.draw(st.lists(st.integers(0, width - 1), min_size=beam, max_size=beam)) for _ in staying]
    rows = [i * width + parent for i, some in zip(staying, parents, strict=True) for parent in some]
    seen.reorder(torch.tensor(rows))
    return [texts[i] for i in staying], [
        [pasts[i][parent] for parent in some] for i, some in zip(staying, parents, strict=True)
    ]
