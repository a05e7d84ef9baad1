"""The simpler simple recurrent unit, by its formula, one number after another."""

import math

import torch

from qkv.layers.ssru import SimplerRecurrence


def by_the_formula(unit: SimplerRecurrence, x: list[list[float]]) -> list[list[float]]:
    """Kim et al. 2019: f = sigmoid(W_f x + b), c = f c + (1 - f) W x, h = max(0, c)."""
    forget, bias = unit.forget.weight.tolist(), unit.forget.bias.tolist()
    cell, found = [0.0] * len(bias), []
    for row in x:
        for i, (gate, into) in enumerate(zip(forget, unit.input.weight.tolist(), strict=True)):
            f = 1 / (1 + math.exp(-sum(w * v for w, v in zip(gate, row, strict=True)) - bias[i]))
            cell[i] = f * cell[i] + (1 - f) * sum(w * v for w, v in zip(into, row, strict=True))
        found.append([max(0.0, c) for c in cell])
    return found


def test_each_state_follows_from_the_one_before_by_the_formula() -> None:
    torch.manual_seed(0)
    unit, x = SimplerRecurrence(5).double(), torch.randn(2, 7, 5, dtype=torch.float64)
    states, cell = unit(x)
    torch.testing.assert_close(states, torch.tensor([by_the_formula(unit, row) for row in x.tolist()]).double())
    first, between = unit(x[:, :3])
    second, last = unit(x[:, 3:], between)
    torch.testing.assert_close(torch.cat((first, second), dim=1), states)
    torch.testing.assert_close(last, cell)
