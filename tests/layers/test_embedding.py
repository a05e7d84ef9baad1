"""Embeddings of unit variance, and a projection that may share their table."""

import pytest
import torch

from qkv.layers import Embedding, Projection


@pytest.mark.parametrize("d_model", [16, 512])
def test_scaled_embeddings_have_unit_variance(d_model: int) -> None:
    torch.manual_seed(0)
    embedding = Embedding(1000, d_model)
    assert embedding(torch.arange(1000)).std().item() == pytest.approx(1, rel=0.03)
    assert embedding.weight.std().item() == pytest.approx(d_model**-0.5, rel=0.03)


def test_a_row_is_read_times_the_root_of_the_width() -> None:
    embedding = Embedding(10, 16)
    assert torch.equal(embedding(torch.tensor([[3, 7]])), embedding.weight[None, [3, 7]] * 4)


def test_a_tied_projection_has_no_table_of_its_own() -> None:
    embedding = Embedding(10, 4)
    projection = Projection(10, 4, tied=embedding, bias=False)
    assert projection.weight is embedding.weight
    hidden = torch.randn(2, 3, 4)
    torch.testing.assert_close(projection(hidden), hidden @ embedding.weight.T)


def test_an_untied_projection_has_its_own_table_and_a_bias_of_zeros_if_asked() -> None:
    projection = Projection(10, 4, tied=None, bias=True)
    assert {name: tuple(p.shape) for name, p in projection.named_parameters()} == {"weight": (10, 4), "bias": (10,)}
    assert not projection.bias.any()
    with torch.no_grad():
        projection.bias.copy_(torch.arange(10.0))
    torch.testing.assert_close(projection(torch.zeros(4)), torch.arange(10.0))
