"""Which parameters learn, and how fast: frozen ones keep their bits, layers have rates of their own and wake up."""

from typing import Any

import pytest
import torch

from kit import same, tiny_model, weights
from qkv.errors import InputError
from qkv.models import Model
from qkv.training.optimizers import Unfreezing, build_optimizer, freeze, layers, parameter_groups
from qkv.training.settings import TrainingConfig


def gpt2() -> Model:
    return tiny_model("gpt2", layers=3)


def level_of(name: str) -> int:
    """From below: tables of tokens and positions 0, the blocks 1 to 3, and 4 for the norm that stands on them."""
    if "blocks." in name:
        return 1 + int(name.split("blocks.")[1].split(".")[0])
    return 0 if name.startswith(("tokens", "inputs", "decoder.position", "position")) else 4


def learning(model: torch.nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def test_layers_are_counted_from_below() -> None:
    model = gpt2()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [{names[id(parameter)] for parameter in layer} for layer in layers(model)]
    assert found == [{name for name in names.values() if level_of(name) == level} for level in range(5)]


@pytest.mark.parametrize(("name", "position"), [("xlnet", "transformer_xl"), ("gpt2", "shaw")])
def test_positions_that_are_a_layers_own_learn_with_it(name: str, position: str) -> None:
    model = tiny_model(name, layers=3, position=position)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [{names[id(parameter)] for parameter in layer} for layer in layers(model)]
    [stack] = {name.split(".")[0] for name in names.values() if ".blocks." in name}
    for i in range(3):
        assert found[1 + i] == {
            name for name in names.values() if name.startswith((f"{stack}.blocks.{i}.", f"{stack}.positions.{i}."))
        }
        assert any("positions" in name for name in found[1 + i])


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ("decoder.blocks.0", lambda name: level_of(name) == 1),
        ("decoder.blocks.0, decoder.blocks.1", lambda name: level_of(name) in (1, 2)),
        ("decoder", lambda name: name.startswith("decoder.")),
        ("*.norm.*", lambda name: ".norm." in name),
        ("", lambda name: False),
    ],
)
def test_what_is_frozen_goes_by_names(patterns: str, frozen: Any) -> None:
    model = gpt2()
    everything = learning(model)
    freeze(model, patterns)
    assert learning(model) == {name for name in everything if not frozen(name)}
    assert (learning(model) == everything) == (patterns == "")


def test_what_cannot_be_frozen_is_refused() -> None:
    with pytest.raises(InputError, match=r"training.freeze names 'encoder', but no parameter is called so; begin with"):
        freeze(gpt2(), "encoder")
    with pytest.raises(InputError, match=r"training.freeze = '\*' leaves nothing to learn; freeze less"):
        freeze(gpt2(), "*")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_frozen_parameters_keep_their_bits_and_the_others_learn(workshop: Any, optimizer: str) -> None:
    """Also under weight decay, an average, and clipping; and a run that goes on keeps them too."""
    settings = {"freeze": "encoder, source", "optimizer": optimizer, "weight_decay": 0.1, "average": "running"}
    trainer = workshop.trainer(steps=5, **settings)
    before = weights(trainer.model)
    trainer.run()
    again = workshop.trainer(steps=8, **settings)
    assert again.resume()
    again.run()
    for name, value in weights(again.model).items():
        assert torch.equal(value, before[name]) == name.startswith(("encoder.", "source.")), name


def test_each_layer_learns_slower_than_the_one_above_it() -> None:
    """By hand: of five levels, the factors are 1, 1/2, 1/4, 1/8 and 1/16 from above; steps are torch's at those."""
    model, twin = gpt2(), gpt2()
    c = TrainingConfig(layer_decay=0.5, weight_decay=0.1, learning_rate=0.01)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, c)
    factors = {names[id(p)]: group["factor"] for group in groups for p in group["params"]}
    assert factors == {name: 0.5 ** (4 - level_of(name)) for name in names.values()}
    optimizer = build_optimizer(model, c, torch.device("cpu"), torch.float32)
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * group["factor"]
    reference = torch.optim.AdamW(
        [
            {"params": [p], "lr": 0.01 * factors[name], "weight_decay": 0.1 if p.ndim > 1 else 0.0}
            for name, p in twin.named_parameters()
        ],
        betas=(0.9, 0.98), eps=1e-9,
    )  # fmt: skip
    for _ in range(5):
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            ours.grad = torch.randn_like(ours)
            theirs.grad = ours.grad.clone()
        optimizer.step()
        reference.step()
    for (name, ours), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6, msg=name)


def test_a_rate_is_reported_for_the_top_layer(workshop: Any) -> None:
    trainer = workshop.trainer(steps=1, layer_decay=0.5, learning_rate=0.01)
    trainer.run()
    rates = {group["lr"] for group in trainer.optimizer.param_groups}
    assert max(rates) == workshop.named("train")[0]["learning_rate"] == 0.01
    assert len(rates) == len(layers(trainer.model))


@pytest.mark.parametrize(("epoch", "awake"), [(0.0, 1), (0.4, 1), (0.5, 2), (1.2, 3), (2.0, 5), (9.0, 5)])
def test_layers_wake_one_by_one_from_above(epoch: float, awake: int) -> None:
    model = gpt2()
    Unfreezing(model, 0.5).at(epoch)
    assert {level_of(name) for name in learning(model)} == set(range(5 - awake, 5))


def test_what_is_frozen_does_not_wake() -> None:
    model = gpt2()
    freeze(model, "decoder.blocks.1")
    waking = Unfreezing(model, 1.0)
    for epoch in range(6):
        waking.at(float(epoch))
        assert not [name for name in learning(model) if level_of(name) == 2]
    assert {level_of(name) for name in learning(model)} == {0, 1, 3, 4}


def test_without_it_all_learn_at_once() -> None:
    model = gpt2()
    before = learning(model)
    Unfreezing(model, 0.0).at(0.0)
    assert learning(model) == before


def test_layers_that_sleep_keep_their_bits(workshop: Any) -> None:
    trainer = workshop.trainer(steps=3, unfreeze=100.0)
    before = weights(trainer.model)
    trainer.run()
    after = weights(trainer.model)
    top = {id(parameter) for parameter in layers(trainer.model)[-1]}
    names = {name for name, parameter in trainer.model.named_parameters() if id(parameter) in top}
    assert names
    assert same({name: after[name] for name in after if name not in names},
                {name: before[name] for name in before if name not in names})  # fmt: skip
    assert not any(torch.equal(after[name], before[name]) for name in names)
