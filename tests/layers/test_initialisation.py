"""What weights are drawn from: the published variances."""

import math

import pytest
import torch
from torch import nn

from qkv.layers import Embedding, StackConfig, init_normal, init_xavier
from qkv.positions import Learned


def test_xavier_is_uniform_with_variance_2_over_rows_and_columns() -> None:
    """Glorot and Bengio 2010, Eq. 16: U(-a, a), a = sqrt(6 / (rows + columns)); a^2 / 3 is its variance."""
    torch.manual_seed(0)
    layer, table = nn.Linear(300, 200), Embedding(50, 16)
    before = table.weight.clone()
    init_xavier(nn.Sequential(layer, table))
    assert layer.weight.var().item() == pytest.approx(2 / 500, rel=0.02)
    assert layer.weight.abs().max().item() == pytest.approx(math.sqrt(6 / 500), rel=0.01)
    assert not layer.bias.any()
    assert torch.equal(table.weight, before)  # a table has a scale of its own


def test_normal_draws_matrices_and_tables() -> None:
    torch.manual_seed(0)
    places = Learned(StackConfig(d_model=64, max_length=200))
    parts = nn.ModuleDict({"tokens": Embedding(300, 64), "places": places, "linear": nn.Linear(64, 100)})
    init_normal(parts, std=0.05, positions=0.01)
    for name, expected in (("tokens", 0.05), ("places", 0.01), ("linear", 0.05)):
        assert parts[name].weight.std().item() == pytest.approx(expected, rel=0.03)
    assert not parts["linear"].bias.any()
