"""Learned positions: a table with an end, and a clear word when a text passes it."""

import pytest
import torch

from qkv.config import build
from qkv.errors import InputError
from qkv.models import Transformer, TransformerConfig
from qkv.positions import POSITIONS, Learned, Places

CPU = torch.device("cpu")
SIZES = TransformerConfig(d_model=8, n_heads=1, max_length=6)


def test_each_place_has_its_own_row() -> None:
    position = Learned(SIZES)
    x = torch.randn(2, 3, 8)
    found = position.embed(x, Places.span(2, 5, CPU))
    assert torch.equal(found, x + position.weight[2:5])


def test_the_table_ends_at_max_length_or_at_the_given_length() -> None:
    assert Learned(SIZES).weight.shape == (6, 8)
    assert build(POSITIONS, "learned(length=4)", SIZES).weight.shape == (4, 8)


def test_offset_rows_in_front_stay_unused() -> None:
    """RoBERTa: 512 places, padding_idx + 1 = 2 rows in front, 514 rows in all."""
    position = Learned(SIZES, length=512, offset=2)
    assert position.weight.shape == (514, 8)
    position.embed(torch.zeros(1, 512, 8), Places.span(0, 512, CPU)).pow(2).sum().backward()
    assert not position.weight.grad[:2].any()
    assert position.weight.grad[2:].any(dim=1).all()


def test_its_size_is_that_of_a_scaled_embedding_divided_by_the_root_of_the_width() -> None:
    torch.manual_seed(0)
    weight = Learned(TransformerConfig(d_model=64, n_heads=1, max_length=1000)).weight
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


def test_a_place_beyond_the_table_is_refused() -> None:
    position = Learned(SIZES)
    position.embed(torch.zeros(1, 1, 8), Places.span(5, 6, CPU))
    with pytest.raises(InputError, match="place 6 is beyond the 6 learned positions"):
        position.embed(torch.zeros(1, 1, 8), Places.span(6, 7, CPU))


def test_a_model_refuses_a_text_that_is_too_long() -> None:
    config = TransformerConfig(
        vocab_size=11, d_model=8, d_ff=8, n_heads=2, encoder_layers=1, decoder_layers=1, position="learned(length=4)"
    )
    model = Transformer(config)
    model(torch.ones(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(InputError, match="place 4 is beyond the 4 learned positions"):
        model(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(InputError, match="place 4 is beyond the 4 learned positions"):
        model(torch.ones(1, 4, dtype=torch.long), torch.ones(1, 5, dtype=torch.long))


@pytest.mark.parametrize("spec", ["learned(length=0)", "learned(length=-3)", "learned(offset=-1)"])
def test_a_table_of_no_size_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="give a length of at least 1 and an offset of 0 or more"):
        build(POSITIONS, spec, SIZES)
