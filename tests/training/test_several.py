"""Several optimisers for one model: who has which parameters, when they begin, each clipped by itself, and going on."""

import math
from typing import Any

import pytest
import torch

from kit import refused, same, stirred, tiny_model, weights
from qkv.config import to_tree
from qkv.errors import InputError
from qkv.models import Backbone, Headed
from qkv.training.groups import Group, Optimizers, parameters, parted
from qkv.training.optimizers import Unfreezing, build_optimizer, clip_each
from qkv.training.settings import TrainingConfig

# Chronopoulou et al. 2019: epoch 1 the new layers, 2 the shared LSTMs and the softmax, 5 the embeddings.
SIATL = ["heads: adam(rate=5e-4)", "backbone.tokens: asgd(rate=1e-4, after=4)", "backbone: asgd(rate=1e-2, after=1)"]


def siatl() -> Headed:
    backbone = tiny_model("awd_lstm", layers=2)
    assert isinstance(backbone, Backbone)
    return stirred(Headed(backbone, {"classes": "attention_classes(n=2, d_hidden=6)"}), 0.1)


def kind_of(name: str) -> int:
    return 0 if name.startswith("heads.") else 1 if name.startswith("backbone.tokens.") else 2


def built(model: torch.nn.Module, **settings: Any) -> Any:
    return build_optimizer(model, TrainingConfig(groups=SIATL, **settings), torch.device("cpu"), torch.float32)


def test_groups_are_disjoint_and_cover_all() -> None:
    model = siatl()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [[names[id(p)] for p in some] for some in parted(model, [Group.read(text) for text in SIATL])]
    assert sorted(name for some in found for name in some) == sorted(names.values())
    assert found == [[name for name in names.values() if kind_of(name) == i] for i in range(3)]
    assert all(found)


def test_each_has_its_optimiser_and_its_rate() -> None:
    """As a trainer sets it: the learning rate of the settings times the factor of the group."""
    optimizer = built(siatl(), learning_rate=0.002)
    assert [type(one).__name__ for one in optimizer.optimizers] == ["Adam", "ASGD", "ASGD"]
    rates = [{0.002 * group["factor"] for group in one.param_groups} for one in optimizer.optimizers]
    assert [*map(list, rates)] == [[pytest.approx(rate)] for rate in (5e-4, 1e-4, 1e-2)]


def test_steps_are_those_of_torch() -> None:
    model, twin = siatl(), siatl()
    optimizer = built(model, learning_rate=5e-4)
    parts = [[p for name, p in twin.named_parameters() if kind_of(name) == i] for i in range(3)]
    theirs = [torch.optim.Adam(parts[0], 5e-4, (0.9, 0.98), 1e-9), torch.optim.ASGD(parts[1], 1e-4), torch.optim.ASGD(parts[2], 1e-2)]  # fmt: skip  # noqa: E501
    for _ in range(5):
        for own, other in zip(model.parameters(), twin.parameters(), strict=True):
            own.grad = torch.randn_like(own)
            other.grad = own.grad.clone()
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * group["factor"]
        optimizer.step()
        for one in theirs:
            one.step()
    for (name, own), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own, other, atol=1e-6, rtol=1e-6, msg=name)
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_each_is_clipped_by_itself() -> None:
    model = siatl()
    optimizer = built(model)
    for name, parameter in model.named_parameters():
        parameter.grad = torch.full_like(parameter, 10.0 if kind_of(name) == 0 else 1e-4)
    before = [parameter.grad.norm().item() for parameter in model.parameters() if parameter.grad is not None]
    found = clip_each(model, optimizer, 1.0)
    assert found.item() == pytest.approx(sum(norm**2 for norm in before) ** 0.5)
    lengths = [torch.cat([p.grad.flatten() for p in parameters(one)]).norm().item() for one in optimizer.optimizers]  # type: ignore[union-attr]
    assert lengths[0] == pytest.approx(1.0)
    assert all(parameter.grad.max() == 1e-4 for parameter in parameters(optimizer.optimizers[2]))  # type: ignore[union-attr]


def test_the_order_of_an_optimisers_groups_changes_no_bit_of_the_length() -> None:
    """Muon's parameters stand in groups of their own; the squares are added as the model has them."""
    model = siatl()
    turned = torch.optim.SGD([{"params": [p]} for p in reversed([*model.parameters()])], lr=0.1)
    for seed in range(50):
        rng = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=rng) * 10 ** torch.rand(1, generator=rng)
        whole = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        assert torch.equal(clip_each(model, turned, math.inf), whole)


@pytest.mark.parametrize(("epoch", "learn"), [(0.0, {0}), (0.99, {0}), (1.0, {0, 2}), (3.9, {0, 2}), (4.0, {0, 1, 2})])
def test_groups_begin_to_learn_at_their_epochs(epoch: float, learn: set[int]) -> None:
    model = siatl()
    Unfreezing(model, 0.0, [Group.read(text) for text in SIATL]).at(epoch)
    assert {kind_of(name) for name, parameter in model.named_parameters() if parameter.requires_grad} == learn


def test_a_run_goes_on_as_if_it_had_never_stopped(workshop: Any) -> None:
    """The states of all optimisers are in its checkpoints."""
    groups = ["encoder, source: asgd(rate=0.01)", "*: adamw(rate=1e-3, after=0.3)"]
    straight = workshop.trainer(out="straight", steps=9, groups=groups)
    straight.run()
    workshop.trainer(out="parted", steps=5, groups=groups).run()
    again = workshop.trainer(out="parted", steps=9, groups=groups)
    assert again.resume()
    again.run()
    assert isinstance(again.optimizer, Optimizers)
    assert same(weights(again.model), weights(straight.model))


@refused(
    {
        "heads adam(rate=1)": "is no group of parameters; write names: optimizer\\(rate=0.01\\)",
        "heads: adam": "is no group of parameters",
        "heads: adam(rate=-1)": "is no group of parameters",
        "heads: adam(rate=1, after=-1)": "is no group of parameters",
        "heads: adam(rate=1, rat=1)": "is no group of parameters",
        "heads: adm(rate=1)": "unknown optimizer 'adm' in 'heads: adm\\(rate=1\\)'",
        "heads: ": "is no group of parameters",
        "heads: adam(": "does not name a part",
    }
)
def test_what_is_no_group_is_refused(wrong: str) -> None:
    TrainingConfig(groups=[wrong])


def test_groups_that_leave_somebody_out_and_a_group_of_nobody_are_refused() -> None:
    with pytest.raises(InputError, match=r"names no group for backbone.tokens.weight; add one, or freeze it with"):
        parted(siatl(), [Group.read("heads: adam(rate=1)")])
    with pytest.raises(InputError, match=r"training.groups leaves no parameter for 'tokens'; correct it, or leave it"):
        parted(siatl(), [Group.read("*: adam(rate=1)"), Group.read("tokens: sgd(rate=1)")])
    with pytest.raises(ValueError, match="leave unfreeze out"):
        TrainingConfig(groups=SIATL, unfreeze=1.0)


def test_groups_are_settings_like_others() -> None:
    assert to_tree(TrainingConfig(groups=SIATL))["groups"] == SIATL
