"""A loss that is not a number: the batch is left out and named; then back to the last checkpoint, then the end."""

import math
from itertools import islice
from typing import Any

import pytest
import torch

from kit import same, weights
from qkv.data import Batch
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.training import trainer as training


def poison(model: Transformer, token: int) -> None:
    """Make one word's vector not a number, as a model does that has run away."""
    with torch.no_grad():
        model.source.weight[token] = torch.nan


def untied(workshop: Any) -> Transformer:
    """A source table of its own, so that a poisoned word hurts only the batches that read it."""
    model: Transformer = workshop.model(tied="none", dropout=0.0)
    return model


def a_word_of_some(batches: list[Batch]) -> int:
    """A source word that some of these batches have and the first one has not."""
    sources = [batch.columns[0].flatten().tolist() for batch in batches]
    return next(token for source in sources for token in source if token not in sources[0])


def test_the_batch_is_left_out_counted_and_named(workshop: Any) -> None:
    model = untied(workshop)
    trainer = workshop.trainer(model=model, tokens=60, average="none")
    placed = list(islice(trainer.batches.stream(), 12))
    batches = [batch for batch, _ in placed]
    token = a_word_of_some(batches)
    poison(model, token)
    hurt = [step for step, batch in enumerate(batches, start=1) if (batch.columns[0] == token).any()]
    assert 1 <= len(hurt) < 12
    for step, one in enumerate(placed, start=1):
        before = weights(model)
        trainer.now.bad_in_a_row = 0  # that is another test
        trainer.step([one])
        del before["source.weight"]  # Adam moves what it can of the table; the poison stays where it is
        after = {name: value for name, value in weights(model).items() if name in before}
        assert same(before, after) == (step in hurt)
        assert all(bool(value.isfinite().all()) for value in after.values())
    bad = workshop.named("bad")
    assert [event["step"] for event in bad] == hurt
    assert [event["count"] for event in bad] == list(range(1, len(hurt) + 1))
    assert bad[0]["rows"] == batches[hurt[0] - 1].rows.tolist()
    assert trainer.now.bad == len(hurt)
    assert trainer.now.step == 12


def test_again_and_again_goes_back_to_the_last_checkpoint(workshop: Any) -> None:
    trainer = workshop.trainer(steps=4, average="running(decay=0.5)")
    trainer.run()
    good, average = weights(trainer.model), {name: value.clone() for name, value in trainer.average.tensors().items()}
    for parameter in trainer.model.parameters():
        torch.nn.init.constant_(parameter, torch.inf)
    stream = trainer.batches.stream(trainer.now.place)
    for _ in range(training.BAD_IN_A_ROW):
        assert workshop.named("rollback") == []
        trainer.step([next(stream)])
    assert workshop.named("rollback") == [{"event": "rollback", "step": 7, "to": 4}]
    assert same(weights(trainer.model), good)
    assert same(trainer.average.tensors(), average)
    assert (trainer.now.step, trainer.now.bad, trainer.now.bad_in_a_row) == (7, 3, 0)  # the counters go on
    figures = trainer.step([next(stream)])
    assert math.isfinite(figures["loss"])


def test_a_good_batch_between_starts_the_count_anew(workshop: Any) -> None:
    model = untied(workshop)
    trainer = workshop.trainer(model=model, tokens=60)
    placed = list(islice(trainer.batches.stream(), 12))
    token = a_word_of_some([batch for batch, _ in placed])
    poison(model, token)
    bad = next(one for one in placed if (one[0].columns[0] == token).any())
    for one, in_a_row in ((bad, 1), (bad, 2), (placed[0], 0), (bad, 1)):
        trainer.step([one])
        assert trainer.now.bad_in_a_row == in_a_row


def test_too_many_end_the_run_with_a_sentence(workshop: Any) -> None:
    model = workshop.model()
    torch.nn.init.constant_(model.source.weight, torch.nan)
    trainer = workshop.trainer(model=model, steps=100)
    with pytest.raises(InputError, match=r"30 batches gave a loss that is not a number; .* --training.learning-rate"):
        trainer.run()
    assert trainer.now.step == training.BAD_AT_MOST == len(workshop.named("bad"))


def test_an_absurd_learning_rate_is_told(workshop: Any) -> None:
    trainer = workshop.trainer(learning_rate=1e38, steps=200, clip=0.0)
    with pytest.raises(InputError, match="begin anew with --restart and a lower"):
        trainer.run()
    assert trainer.now.bad == training.BAD_AT_MOST


def test_a_validation_that_is_not_a_number_is_never_the_best(workshop: Any) -> None:
    losses = iter([math.nan, 3.0, math.nan, 2.0])
    trainer = workshop.trainer(steps=8, validate_every=2, judge=lambda _: {"loss": next(losses)})
    trainer.run()
    assert [event["best"] for event in workshop.named("valid")] == [False, True, False, True]
    assert (trainer.now.best, trainer.now.best_step) == (-2.0, 8)
