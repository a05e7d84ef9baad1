"""Muon: the steps of torch's own, orthogonal ones for matrices and Adam's for all else."""

from typing import Any

import pytest
import torch
from torch import nn

from qkv.models import Model, Recurrent, RecurrentConfig, Transformer, TransformerConfig
from qkv.training.optimizers import build_optimizer, matrices, orthogonal
from qkv.training.settings import TrainingConfig

SMALL: dict[str, Any] = {"d_model": 16, "d_ff": 48, "n_heads": 2, "encoder_layers": 2, "decoder_layers": 1}


def transformer(**settings: Any) -> Transformer:
    torch.manual_seed(1)
    return Transformer(TransformerConfig(vocab_size=40, **SMALL, **settings))


def test_ten_steps_equal_torch() -> None:
    ours, theirs = transformer(), transformer()
    inner = [value for name, value in theirs.named_parameters() if "coder.blocks" in name and value.ndim == 2]
    rest = [value for name, value in theirs.named_parameters() if "coder.blocks" not in name or value.ndim != 2]
    assert len(inner) == 2 * (4 + 2) + (8 + 2)
    c = TrainingConfig(optimizer="muon", learning_rate=0.01, weight_decay=0.1)
    optimizer = build_optimizer(ours, c, torch.device("cpu"), torch.bfloat16)
    reference = [
        torch.optim.Muon(inner, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(
            [
                {"params": [value for value in rest if value.ndim > 1]},
                {"params": [value for value in rest if value.ndim == 1], "weight_decay": 0.0},
            ],
            lr=0.01,
            weight_decay=0.1,
            betas=(0.9, 0.98),
            eps=1e-9,
        ),
    ]
    for _ in range(10):
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        for each in (optimizer, *reference):
            each.step()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5, msg=name)
    assert not torch.equal(inner[0], transformer().get_parameter("encoder.blocks.0.attention.query.weight"))


@pytest.mark.parametrize("shape", [(8, 8), (6, 20), (20, 6), (1, 5)])
def test_orthogonal_keeps_the_directions_and_evens_out_their_lengths(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    several = torch.randn(3, *shape, dtype=torch.float64)
    for x, found in zip(several, orthogonal(several), strict=True):
        u, values, v = torch.linalg.svd(x, full_matrices=False)
        turned = u.mT @ found @ v.mT  # the new singular values on the diagonal, and nothing else
        torch.testing.assert_close(turned, torch.diag(turned.diagonal()), atol=1e-6, rtol=0)
        wide = values / values.norm() > 0.05  # smaller ones would need more rounds
        assert turned.diagonal()[wide].min() > 0.6
        assert turned.diagonal().max() < 1.25


@pytest.mark.parametrize(
    "model",
    [
        transformer(position="learned", max_length=9, tied="none"),
        Recurrent(RecurrentConfig(vocab_size=40, d_model=16)),
    ],
    ids=["transformer", "recurrent"],
)
def test_tables_are_left_to_adam(model: Model) -> None:
    inner = matrices(model)
    assert inner
    assert all(40 not in weight.shape and 9 not in weight.shape for weight in inner)
    optimizer = build_optimizer(model, TrainingConfig(optimizer="muon"), torch.device("cpu"), torch.float32)
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())


def test_a_matrix_without_a_gradient_stays() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    before = model[1].weight.clone()
    optimizer = build_optimizer(model, TrainingConfig(optimizer="muon"), torch.device("cpu"), torch.float32)
    model[0](torch.randn(2, 4)).sum().backward()
    optimizer.step()
    assert torch.equal(model[1].weight, before)
    assert not torch.equal(model[0].weight, before)
