"""One step of training is one step of torch's optimiser on the mean loss over real tokens."""

import math
import subprocess
import sys
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from qkv.data import Batch, Place, generator
from qkv.training.optimizers import clip, one_optimizer
from qkv.training.settings import TrainingConfig
from qkv.training.trainer import Placed, Trainer


def mean_loss(model: nn.Module, trainer: Trainer, batches: list[Placed]) -> Tensor:
    """The plain form: the loss of all batches over all their tokens that are not padding."""
    prepared = [trainer.objective.prepare(batch, generator(1, place)) for batch, place in batches]
    losses = [trainer.objective.loss(model(**asked.inputs), asked).total for asked in prepared]
    return sum(losses, torch.zeros(())) / sum(int((asked.labels != 0).sum()) for asked in prepared)


def targets(batch: Batch) -> int:
    """Tokens that are asked for: all of the target but <s>."""
    return int((batch.columns[1][:, 1:] != 0).sum())


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("what", ["matrices", "all"])
@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adam", 0.1), ("adamw", 0.1)])
def test_ten_steps_equal_torch(workshop: Any, name: str, decay: float, what: str) -> None:
    """Norms and biases decay only if all is to."""
    rates = [0.01 * min(step / 4, 1) for step in range(1, 11)]
    trainer = workshop.trainer(
        model=workshop.model(dropout=0.0), optimizer=name, weight_decay=decay, decay=what, learning_rate=0.01, clip=0.0,
        schedule="constant(warmup=4)", beta1=0.8, beta2=0.95, epsilon=1e-7,
    )  # fmt: skip
    twin = workshop.model(dropout=0.0)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    matrices = [value for value in twin.parameters() if value.ndim > 1]
    others = [value for value in twin.parameters() if value.ndim == 1]
    groups = [{"params": matrices}, {"params": others, "weight_decay": decay if what == "all" else 0.0}]
    reference = kind(groups, lr=1.0, betas=(0.8, 0.95), eps=1e-7, weight_decay=decay)
    for rate, one in zip(rates, trainer.batches.stream(), strict=False):
        trainer.step([one])
        for group in reference.param_groups:
            group["lr"] = rate
        reference.zero_grad()
        mean_loss(twin, trainer, [one]).backward()
        reference.step()
    for (key, ours), theirs in zip(trainer.model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-5, msg=key)
    assert not torch.equal(next(twin.parameters()), next(workshop.model().parameters()))


def test_without_bias_correction_ten_steps_equal_berts_formula(workshop: Any) -> None:
    """m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr (m / (sqrt(v) + eps) + decay w)."""
    trainer = workshop.trainer(
        model=workshop.model(dropout=0.0), optimizer="adamw", bias_correction=False, weight_decay=0.1, decay="all",
        learning_rate=0.001, clip=0.0, schedule="constant", beta1=0.9, beta2=0.999, epsilon=1e-6,
    )  # fmt: skip
    twin = workshop.model(dropout=0.0)
    m, v = ({name: torch.zeros_like(weight) for name, weight in twin.named_parameters()} for _ in range(2))
    for one in islice(trainer.batches.stream(), 10):
        trainer.step([one])
        twin.zero_grad()
        mean_loss(twin, trainer, [one]).backward()
        with torch.no_grad():
            for name, weight in twin.named_parameters():
                m[name] = 0.9 * m[name] + 0.1 * weight.grad
                v[name] = 0.999 * v[name] + 0.001 * weight.grad**2
                weight -= 0.001 * (m[name] / (v[name].sqrt() + 1e-6) + 0.1 * weight)
    for (key, ours), theirs in zip(trainer.model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-5, msg=key)


OTHERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "adamax": (torch.optim.Adamax, {"betas": (0.8, 0.95), "eps": 1e-7}),
    "adagrad": (torch.optim.Adagrad, {"eps": 1e-7, "initial_accumulator_value": 0.3}),
    "asgd": (torch.optim.ASGD, {}),
    "sgd": (torch.optim.SGD, {"momentum": 0.8}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_ten_steps_of_the_others_equal_torch(name: str) -> None:
    """With the rates of a schedule, and a decay of matrices alone."""
    kind, settings = OTHERS[name]
    c = TrainingConfig(optimizer=name, learning_rate=0.1, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-7,  # type: ignore[arg-type]
                       accumulator=0.3)  # fmt: skip
    torch.manual_seed(0)
    own, twin = nn.Linear(5, 3), nn.Linear(5, 3)
    twin.load_state_dict(own.state_dict())
    ours = one_optimizer(own, c, torch.device("cpu"), torch.float32)
    groups = [{"params": [twin.weight], "weight_decay": 0.1}, {"params": [twin.bias], "weight_decay": 0.0}]
    theirs = kind(groups, lr=0.1, **settings)  # type: ignore[call-arg]
    for step in range(10):
        for group in (*ours.param_groups, *theirs.param_groups):
            group["lr"] = 0.1 / (1 + step)
        for mine, other in zip(own.parameters(), twin.parameters(), strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        ours.step()
        theirs.step()
    for mine, other in zip(own.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_torchs_other_optimisers_lower_the_loss_and_go_on(workshop: Any, name: str) -> None:
    """And what they remember is written to checkpoints, and read back."""
    trainer = workshop.trainer(optimizer=name, learning_rate=0.05, schedule="constant", clip=1.0)
    batches = [*islice(trainer.batches.stream(), 4)]
    losses = [trainer.step(batches)["loss"] for _ in range(12)]
    assert losses[-1] < losses[0]
    trainer.save()
    again = workshop.trainer(optimizer=name, learning_rate=0.05, schedule="constant", clip=1.0)
    assert again.resume()
    ours, theirs = (one.optimizer.state_dict()["state"] for one in (trainer, again))
    assert ours.keys() == theirs.keys()
    for number, state in ours.items():
        assert state.keys() == theirs[number].keys()
        assert all(torch.equal(value, theirs[number][key]) for key, value in state.items())


def merged(batches: list[Batch]) -> Batch:
    """One batch of the rows of several, padded to the widest."""

    def stack(column: int) -> Tensor:
        rows = [row for batch in batches for row in batch.columns[column]]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    lengths, rows = torch.cat([batch.lengths for batch in batches]), np.concatenate([batch.rows for batch in batches])
    return Batch((stack(0), stack(1)), lengths, rows)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_k_small_batches_give_the_gradients_of_one_big_one(workshop: Any, k: int) -> None:
    trainer = workshop.trainer(model=workshop.model(dropout=0.0), tokens=120)
    several = list(islice(trainer.batches.stream(), k))
    assert len({targets(batch) for batch, _ in several}) > 1  # of different numbers of tokens
    loss, tokens = trainer.gradients(several)
    small = gradients(trainer.model)
    trainer.optimizer.zero_grad()
    big_loss, big_tokens = trainer.gradients([(merged([batch for batch, _ in several]), Place())])
    assert (tokens, loss) == (big_tokens, pytest.approx(big_loss, abs=1e-6))
    for name, gradient in gradients(trainer.model).items():
        torch.testing.assert_close(small[name], gradient, atol=1e-6, rtol=1e-5, msg=name)


def test_accumulating_reads_k_batches_a_step(workshop: Any) -> None:
    trainer = workshop.trainer(accumulate=3, steps=4)
    trainer.run()
    read = trainer.now.place.epoch * trainer.batches.count(0) + trainer.now.place.batch
    assert read == 12
    expected = sum(targets(batch) for batch, _ in islice(trainer.batches.stream(), 12))
    assert trainer.now.tokens == expected


@pytest.mark.parametrize(("clip", "shortened"), [(0.05, True), (1e6, False), (0.0, False)])
def test_long_gradients_are_shortened_to_clip(workshop: Any, clip: float, shortened: bool) -> None:
    """Adam's steps do not show how long a gradient was; its memory, with beta1 = 0 the gradient itself, does."""
    trainer = workshop.trainer(model=workshop.model(dropout=0.0), clip=clip, beta1=0.0)
    one = next(iter(trainer.batches.stream()))
    trainer.gradients([one])
    long = torch.cat([g.flatten() for g in gradients(trainer.model).values()]).norm().item()
    trainer.optimizer.zero_grad()
    figures = trainer.step([one])
    used = torch.cat([entry["exp_avg"].flatten() for entry in trainer.optimizer.state.values()]).norm().item()
    assert figures["gradient"] == pytest.approx(long, rel=1e-5)  # what is reported is the length before clipping
    assert used == pytest.approx(clip if shortened else long, rel=1e-4)


def test_the_rate_that_is_reported_is_the_rate_that_is_used(workshop: Any) -> None:
    trainer = workshop.trainer(learning_rate=0.5, schedule="linear(warmup=4)", steps=8)
    trainer.run()
    # factor(step) = min(step / 4, 1) * (1 - done), and (step - 1 + 1) / 8 is done when step is taken
    rates = [event["learning_rate"] for event in workshop.named("train")]
    assert rates == pytest.approx([0.5 * min(s / 4, 1) * (1 - s / 8) for s in range(1, 9)])
    assert trainer.optimizer.param_groups[0]["lr"] == rates[-1]


def test_weights_stay_float32_in_bfloat16(workshop: Any) -> None:
    trainer = workshop.trainer(precision="bfloat16", steps=3)
    trainer.run()
    assert {value.dtype for value in trainer.model.parameters()} == {torch.float32}
    assert {entry["exp_avg"].dtype for entry in trainer.optimizer.state.values()} == {torch.float32}


def test_the_defaults_are_the_papers() -> None:
    c = TrainingConfig()
    assert (c.beta1, c.beta2, c.epsilon) == (0.9, 0.98, 1e-9)  # Vaswani et al. 2017, section 5.3


@pytest.mark.parametrize("scale", [1e-3, 0.999999 / 30**0.5, 1 / 30**0.5, 1.0, torch.inf, torch.nan])
def test_gradients_are_clipped_as_torch_clips_them(scale: float) -> None:
    """To the last bit, at lengths around the limit too."""
    own, theirs = (nn.Linear(5, 5) for _ in range(2))
    for model in (own, theirs):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, scale)
        model.register_parameter("idle", nn.Parameter(torch.ones(3)))
    torch.testing.assert_close(
        clip(own.parameters(), 1.0), nn.utils.clip_grad_norm_(theirs.parameters(), 1.0), rtol=0, atol=0, equal_nan=True
    )
    if math.isfinite(scale):  # else the step is left out
        assert gradients(own).keys() == gradients(theirs).keys() == {"weight", "bias"}
        assert all(torch.equal(gradients(own)[name], value) for name, value in gradients(theirs).items())


NO_COMPILER = """
import sys, torch
from torch import nn
from qkv.training.optimizers import Muon, eager

for name in ("Adam", "AdamW", "Adamax", "Adagrad", "ASGD", "SGD", ""):
    weight = nn.Parameter(torch.ones(2, 3))
    optimizer = eager(getattr(torch.optim, name))([weight]) if name else Muon([{"params": [weight]}])
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert (weight != 1).all() and weight.requires_grad, name
    assert "torch._dynamo" not in sys.modules, name
"""


def test_no_optimiser_loads_a_compiler() -> None:
    """Every run of training would wait a second for it."""
    done = subprocess.run([sys.executable, "-c", NO_COMPILER], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
