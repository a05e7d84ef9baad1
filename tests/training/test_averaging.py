"""Averages of weights: their closed forms, and that a checkpoint brings them back exactly."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from kit import same
from qkv.config import build
from qkv.errors import InputError
from qkv.training.averaging import AVERAGES, LastAverage, NoAverage, RunningAverage, mean


class One(nn.Module):
    """A model of one weight, so that averages can be worked out by hand."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([value]))

    def becomes(self, value: float) -> "One":
        with torch.no_grad():
            self.w.fill_(value)
        return self


def test_no_average_is_the_weights_themselves() -> None:
    average, model = NoAverage(), One(2.0)
    average.after_step(model)
    assert average.weights(model.becomes(5.0))["w"].item() == 5.0


def test_the_running_average_by_its_closed_form() -> None:
    values, model, average = [4.0, 8.0, -2.0, 6.0, 1.0], One(), RunningAverage(decay=0.3)
    expected = values[0]
    for step, value in enumerate(values, start=1):
        average.after_step(model.becomes(value))
        decay = min(0.3, step / (step + 9))  # 1/10, 2/11, 3/12, then 0.3
        expected = decay * expected + (1 - decay) * value
        assert average.weights(model)["w"].item() == pytest.approx(expected, rel=1e-6)


def test_a_constant_decay_weighs_the_past_by_its_powers() -> None:
    """After long enough, a = (1 - d) * sum_k d^k w_(n-k): here w is 0 but for one 1, twenty steps ago."""
    model, average = One(), RunningAverage(decay=0.5)
    for value in [0.0] * 10 + [1.0] + [0.0] * 20:
        average.after_step(model.becomes(value))
    assert average.weights(model)["w"].item() == pytest.approx(0.5 * 0.5**20, rel=1e-5)


def test_before_any_step_the_average_is_the_weights() -> None:
    for average in (RunningAverage(), LastAverage(), NoAverage()):
        assert average.weights(One(3.0))["w"].item() == 3.0


def test_the_last_n_are_their_mean() -> None:
    model, average = One(), LastAverage(n=3)
    for value in (100.0, 1.0, 2.0, 6.0):
        average.at_validation(model.becomes(value))
        model.becomes(-1000.0)  # what comes between validations does not count
        average.after_step(model)
    assert average.weights(model)["w"].item() == 3.0  # (1 + 2 + 6) / 3


@pytest.mark.parametrize("spec", ["running(decay=0.7)", "last(n=3)", "none"])
def test_restored_from_its_tensors_it_goes_on_exactly(spec: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    one, other = build(AVERAGES, spec), build(AVERAGES, spec)
    for step in range(9):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        if step == 5:
            saved = sorted(one.tensors().items(), reverse=True)  # a file need not keep the order
            other.restore({name: value.clone() for name, value in saved})
            assert same(other.tensors(), one.tensors())
        for average in (one, other) if step >= 5 else (one,):
            average.after_step(model)
            average.at_validation(model)
    assert same(other.weights(model), one.weights(model))
    assert same(other.tensors(), one.tensors())


def test_many_copies_average_to_themselves() -> None:
    torch.manual_seed(1)
    copy = {"a": torch.randn(50, 7), "b": torch.randn(3)}
    for n in (1, 2, 3, 7, 20):
        averaged = mean([copy] * n)
        assert all(torch.equal(averaged[name], copy[name]) for name in copy)


def test_two_average_to_their_mean() -> None:
    one, other = {"a": torch.tensor([1.0, 5.0])}, {"a": torch.tensor([2.0, -5.0])}
    assert mean([one, other])["a"].tolist() == [1.5, 0.0]
    assert mean([one, other])["a"].dtype == torch.float32


def test_the_sum_does_not_lose_small_parts() -> None:
    """In float32, 1e8 + 1 is 1e8 again: the mean of 1e8, 1, -1e8 and 3 would not be 1."""
    assert mean([{"a": torch.tensor([x])} for x in (1e8, 1.0, -1e8, 3.0)])["a"].item() == 1.0


@pytest.mark.parametrize("other", [{"a": torch.zeros(3)}, {"b": torch.zeros(2)}, {}])
def test_weights_of_different_models_are_refused(other: dict[str, Tensor]) -> None:
    with pytest.raises(InputError, match="second does not have the weights of first; average folders of one model"):
        mean([{"a": torch.zeros(2)}, other], [Path("first"), Path("second")])


def test_nothing_to_average_is_refused() -> None:
    with pytest.raises(InputError, match="name at least one model folder"):
        mean([])


@pytest.mark.parametrize("spec", ["running(decay=1.0)", "running(decay=-0.1)", "last(n=0)", "runing"])
def test_senseless_averages_are_refused(spec: str) -> None:
    with pytest.raises(InputError):
        build(AVERAGES, spec)
