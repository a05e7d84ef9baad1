"""The state of a recurrent language model goes from window to window: in training, in validation, and after a stop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import qkv
from corpora import CORPORA
from kit import batch, close, same_weights, stirred, tiny_model, write
from qkv.data import RowsInMemory, Windows
from qkv.errors import InputError
from qkv.objectives import Carrying, CausalLM
from qkv.tasks import TASKS

TINY = CORPORA["language_model"]
LSTM: dict[str, Any] = {
    "task": "language_model", "architecture": "awd_lstm",
    "objective": "causal_lm + 2 * activation + temporal_activation",
    "data": {"vocab_size": 340, "batch_tokens": 60, "window": 12},
    "model": {"d_model": 12, "d_hidden": 16, "layers": 2},
}  # fmt: skip
TEXT = torch.randint(4, 40, (61,), generator=torch.Generator().manual_seed(5)).tolist()


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    path = TINY.write(tmp_path)

    def run(out: str, **training: Any) -> Any:
        settings = {**TINY.settings(**training), **LSTM}
        return qkv.train(path, out=tmp_path / out, **settings)

    return run


def test_a_window_begins_with_the_state_that_the_one_before_has_left() -> None:
    """Three lanes of 20 tokens in windows of 7: all at once, and without it, another loss."""
    model = stirred(tiny_model("awd_lstm"), 0.3).eval()
    windows = Windows(RowsInMemory([[TEXT]]), length=7, batch=3, seed=1, carry=True)
    losses, carrying = [], Carrying()
    for one in windows.in_order():
        asked = CausalLM().prepare(one, torch.Generator())
        outputs = carrying.ask(model, asked, one)
        losses.append(CausalLM().loss(outputs, asked).total)
    lanes = torch.stack([torch.tensor(TEXT[i : i + 21]) for i in (0, 20, 40)])
    expected = F.cross_entropy(model(lanes[:, :-1]).logits.flatten(0, 1), lanes[:, 1:].flatten(), reduction="sum")
    close(torch.stack(losses).sum(), expected, atol=1e-3)
    measured = TASKS["language_model"](TASKS["language_model"].data_class()).measure(model, CausalLM(), windows)
    assert measured["loss"] == pytest.approx(expected.item() / 60)


def test_what_is_carried_has_no_gradient_and_begins_anew_where_a_text_does() -> None:
    model, carrying = stirred(tiny_model("awd_lstm"), 0.3), Carrying()
    one = batch([[5, 6, 7, 8]])
    asked = CausalLM().prepare(one, torch.Generator())
    first = carrying.ask(model, asked, one).logits
    assert carrying.state
    assert not any(part.requires_grad for part in carrying.state)
    close(carrying.ask(model, asked, one).logits, first)  # it begins


def test_a_run_that_was_stopped_between_windows_goes_on_to_the_bit(train: Callable[..., Any], tmp_path: Path) -> None:
    """With all dropouts, in the middle of an epoch; the state is in the checkpoint."""
    straight = train("straight", steps=9)
    assert straight.epochs % 1 > 0
    train("parted", steps=4)
    train("parted", steps=9)
    assert same_weights(tmp_path / "parted", tmp_path / "straight")


def test_other_costs_than_those_of_recurrent_models_are_refused(tmp_path: Path) -> None:
    path = TINY.write(tmp_path)
    with pytest.raises(InputError, match=r"activation is a cost of recurrent language models.*; leave it out"):
        qkv.train(path, out=tmp_path / "gpt2", **{**TINY.settings(), "objective": LSTM["objective"]})
    with pytest.raises(InputError, match="cannot be asked of a awd_lstm model"):
        qkv.train(path, out=tmp_path / "apart", **{**TINY.settings(), **LSTM, "objective": "causal_lm(apart=True)"})


def test_a_short_text_can_be_validated_on(tmp_path: Path) -> None:
    path, valid = TINY.write(tmp_path), write(tmp_path / "valid.txt", "A dog runs.")
    trained = qkv.train(path, valid=[valid], out=tmp_path / "model", **{**TINY.settings(steps=1), **LSTM})
    assert trained.best["perplexity"] > 1
