"""What may not change the course of training does not, to the bit; and a run ends where it is told to."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import batch, same, weights
from qkv import folder
from qkv.data import Batch, Buckets, Place, generator
from qkv.models import Bert, BertConfig, Model
from qkv.objectives import Asked, MaskedLM, Translation
from qkv.tasks.translation import PairsConfig, Translate
from qkv.text.tokenizer import UNK, Tokenizer
from qkv.training.trainer import Trainer


def real_judge(batches: Buckets) -> Callable[[Model], dict[str, float]]:
    """A real validation: the model in evaluation mode, on real batches."""
    return lambda model: Translate(PairsConfig()).measure(model, Translation(), batches)


def after_run(trainer: Trainer) -> dict[str, Tensor]:
    trainer.run()
    return weights(trainer.model)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_trying_the_largest_batch_first_changes_nothing(workshop: Any, precision: str) -> None:
    plain = workshop.trainer("plain", model=workshop.model(dropout=0.3), precision=precision)
    expected = after_run(plain)
    probed = workshop.trainer("probed", model=workshop.model(dropout=0.3), precision=precision)
    before = weights(probed.model)
    assert probed.probe() > 0
    assert same(before, weights(probed.model))
    assert all(parameter.grad is None for parameter in probed.model.parameters())
    assert same(after_run(probed), expected)


def test_the_batch_that_is_tried_is_the_largest(workshop: Any) -> None:
    trainer = workshop.trainer()
    one_epoch = [batch for batch, _ in islice(trainer.batches.stream(), trainer.batches.count(0))]
    sizes = [sum(ids.numel() for ids in batch.columns) for batch in [trainer.batches.largest(), *one_epoch]]
    assert sizes[0] == max(sizes) > min(sizes)


@pytest.mark.parametrize("average", ["running", "last(n=2)", "none"])
def test_validation_and_checkpoints_change_nothing(workshop: Any, average: str) -> None:
    batches = Buckets(workshop.rows, tokens=300, seed=1, sizes=(0, 1))
    never = workshop.trainer("never", model=workshop.model(dropout=0.3), validate_every=1000, average=average)
    expected = after_run(never)
    often = workshop.trainer(
        "often", model=workshop.model(dropout=0.3), validate_every=2, checkpoint_steps=3, average=average,
        judge=real_judge(batches),
    )  # fmt: skip
    assert same(after_run(often), expected)
    assert often.model.training


def test_what_is_validated_and_kept_is_the_average(workshop: Any) -> None:
    seen: list[dict[str, Tensor]] = []

    def judge(model: Model) -> dict[str, float]:
        seen.append(weights(model))
        return {"loss": 1.0}

    trainer = workshop.trainer(steps=6, average="running(decay=0.5)", judge=judge, learning_rate=0.05)
    trainer.run()
    assert same(seen[-1], trainer.average.weights(trainer.model))
    assert not same(seen[-1], weights(trainer.model))
    assert same(weights(folder.load(workshop.place / "out").model), seen[0])  # the first is the best: none was better


def test_it_stops_when_validation_gets_no_better(workshop: Any) -> None:
    losses = iter([5.0, 4.0, 4.5, 4.2, 3.0, 3.0, 3.1, 3.2, 1.0])
    trainer = workshop.trainer(steps=100, validate_every=2, patience=3, judge=lambda _: {"loss": next(losses)})
    assert trainer.run() == "no better validation for 3 in a row"
    assert [event["best"] for event in workshop.named("valid")] == [True, True, False, False, True, False, False, False]
    assert (trainer.now.step, trainer.now.best_step, trainer.now.stale) == (16, 10, 3)


def test_patience_survives_a_restart(workshop: Any) -> None:
    """Two stale validations before the stop and one after it are three."""
    settings = {"validate_every": 2, "patience": 3, "judge": lambda _: {"loss": 1.0}}
    workshop.trainer(steps=6, **settings).run()
    again = workshop.trainer(steps=100, **settings)
    again.resume()
    assert again.run() == "no better validation for 3 in a row"
    assert again.now.step == 8


def test_the_best_can_be_chosen_by_bleu(workshop: Any) -> None:
    figures = iter([{"loss": 1.0, "bleu": 10.0}, {"loss": 2.0, "bleu": 20.0}, {"loss": 0.5, "bleu": 15.0}])
    trainer = workshop.trainer(steps=6, validate_every=2, best_by="bleu", judge=lambda _: next(figures))
    trainer.run()
    assert (trainer.now.best, trainer.now.best_step) == (20.0, 4)


@pytest.mark.parametrize("steps", [1, 5])
def test_limit_by_steps(workshop: Any, steps: int) -> None:
    trainer = workshop.trainer(steps=steps)
    assert trainer.run() == {1: "1 step is done", 5: "5 steps are done"}[steps]
    assert trainer.now.step == steps == workshop.named("valid")[-1]["step"]  # the end is always validated


@pytest.mark.parametrize("epochs", [0.5, 1.0, 2.5])
def test_limit_by_epochs(workshop: Any, epochs: float) -> None:
    trainer = workshop.trainer(steps=0, epochs=epochs)
    per_epoch = trainer.batches.count(0)
    assert trainer.run() == f"{epochs:g} {'epoch is' if epochs == 1 else 'epochs are'} done"
    assert trainer.now.step == -(-int(epochs * 2) * per_epoch // 2)  # rounded up to whole batches
    assert trainer.progress() >= 1


def test_limit_by_minutes(workshop: Any) -> None:
    """However slow the machine, the step in which time runs out is the last."""
    trainer = workshop.trainer(steps=0, minutes=0.005)
    assert trainer.run() == "0.005 minutes are over"
    seconds = [event["seconds"] for event in workshop.named("train")]
    assert trainer.now.seconds >= 0.3
    assert all(second < 0.3 + 0.005 for second in seconds[:-1])


def test_time_counts_over_all_sessions(workshop: Any) -> None:
    first = workshop.trainer(steps=0, minutes=0.002)
    first.run()
    second = workshop.trainer(steps=0, minutes=0.002)
    second.resume()
    assert second.now.seconds == first.now.seconds >= 0.12
    second.run()
    assert second.now.step == first.now.step


def test_once_an_epoch_is_the_usual_time_to_validate(workshop: Any) -> None:
    trainer = workshop.trainer(steps=0, epochs=3.0)
    trainer.run()
    per_epoch = trainer.batches.count(0)
    assert [event["step"] for event in workshop.named("valid")] == [per_epoch, 2 * per_epoch, 3 * per_epoch]


@dataclass(frozen=True, kw_only=True)
class Hiding(Translation):
    """Each source token is hidden by chance, as a masked language model hides them; what was drawn is kept."""

    drawn: list[float] = field(default_factory=list)

    def prepare(self, batch: Batch, rng: torch.Generator) -> Asked:
        source = batch.columns[0]
        chance = torch.rand(source.shape, generator=rng)
        self.drawn.append(float(chance[0, 0]))
        return super().prepare(replace(batch, columns=(source.masked_fill(chance < 0.2, UNK), batch.columns[1])), rng)


def test_what_an_objective_draws_belongs_to_the_place(workshop: Any) -> None:
    """Each batch has draws of its own, and a run that goes on makes those that it would have made."""

    def run(out: str, steps: int, goes_on: bool = False) -> tuple[list[float], dict[str, Tensor]]:
        trainer = workshop.trainer(out, steps=steps, accumulate=2)
        trainer.objective = objective = Hiding()
        assert trainer.resume() == goes_on
        trainer.run()
        return objective.drawn, weights(trainer.model)

    drawn, whole = run("whole", 9)
    assert len(set(drawn)) == len(drawn) == 18
    first, _ = run("parts", 4)
    rest, parts = run("parts", 9, goes_on=True)
    assert [*first, *rest] == drawn
    assert same(parts, whole)


def test_every_pair_is_read_once_an_epoch(workshop: Any) -> None:
    trainer = workshop.trainer(steps=0, epochs=2.0, accumulate=2)
    trainer.run()
    tokens = int((workshop.rows.lengths(0)[:, 1] - 1).sum())  # <s> is not asked for
    read = trainer.now.tokens
    assert read >= 2 * tokens  # the last step may reach into the third epoch
    assert read - 2 * tokens < 2 * 400


def test_the_mean_is_over_hidden_words_and_speed_over_all_that_are_read(workshop: Any) -> None:
    trainer = workshop.trainer()
    tokenizer = Tokenizer.train(["a b c d e f g h"], vocab_size=300, specials=("<mask>",))
    trainer.objective = MaskedLM().knowing(tokenizer)
    trainer.model = Bert(BertConfig(vocab_size=len(tokenizer), d_model=8, n_heads=2, layers=1, max_length=40))
    some = batch(*[[list(range(20, 20 + n))] for n in (40, 20)])
    asked = trainer.objective.prepare(some, generator(trainer.seed, Place()))
    loss, tokens = trainer.gradients([(some, Place())])
    assert tokens == 60
    assert asked.count == 9  # 15 % of them
    assert loss == pytest.approx(math.log(len(tokenizer)), rel=0.05)
