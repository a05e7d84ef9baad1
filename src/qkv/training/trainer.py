"""The training loop: batches in, better weights out; it can be stopped at any moment and goes on exactly."""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.config import build
from qkv.data import Batch, Place, Stream, generator, seeds
from qkv.device import choose_device, choose_precision
from qkv.evaluation import FIGURES, better
from qkv.folder import RunFolder, fill
from qkv.layers import Stack
from qkv.memory import keep_freed_memory, peak_memory
from qkv.objectives import Carrying, Objective
from qkv.training import checkpoint
from qkv.training.averaging import AVERAGES, averaged
from qkv.training.groups import Group
from qkv.training.optimizers import Unfreezing, build_optimizer, clip_each, freeze, restore_state, state_of
from qkv.training.ranks import ALONE, Ranks
from qkv.training.schedules import SCHEDULES
from qkv.training.settings import TrainingConfig
from qkv.training.sharding import gathered, readable, shard, shared_as, whole
from qkv.wording import are

Placed = tuple[Batch, Place]  # a batch, and the place after it

BAD_IN_A_ROW = 3  # non-finite losses after which the weights go back to the last checkpoint
BAD_AT_MOST = 30  # ... and after which the run ends


@dataclass
class Progress:
    """The counters of a run; all of them go into checkpoints."""

    step: int = 0
    place: Place = field(default_factory=Place)
    seconds: float = 0.0  # spent in training, over all sessions
    tokens: int = 0  # that were learned from; or examples
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # validations since the best
    validated: int = 0  # step of the last validation
    bad: int = 0  # batches with a non-finite loss, skipped
    bad_in_a_row: int = 0


@dataclass(frozen=True)
class Hooks:
    """What the loop calls out to. None of it may change the course of training, but for its end."""

    validate: Callable[[Any], dict[str, float]]  # figures of a model on the validation set
    save_model: Callable[[dict[str, Tensor], Path], None]  # a model folder of these weights
    report: Callable[[dict[str, Any]], bool | None]  # an event for log and display; True asks the run to end
    out: Path


class Trainer:
    """An optimiser on an objective, with a schedule, averaged weights, validations, checkpoints and early stopping."""

    def __init__(
        self, model: nn.Module, objective: Objective, batches: Stream, c: TrainingConfig, hooks: Hooks, seed: int = 1,
        ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        ranks.check(model, batches, c.accumulate, c.shard)
        self.c, self.hooks, self.objective, self.batches = c, hooks, objective, batches
        self.seed, self.ranks = seed, ranks
        if c.threads:
            torch.set_num_threads(c.threads)
        self.device = choose_device(c.device)
        keep_freed_memory()
        self.precision = choose_precision(c.precision, self.device)
        self.model = model.to(self.device)
        for module in model.modules():
            if isinstance(module, Stack):
                module.recompute = c.recompute
        freeze(model, c.freeze)
        if c.shard:
            shard(model)
        self.unfreezing = Unfreezing(model, c.unfreeze, [Group.read(text) for text in c.groups])
        self.optimizer = build_optimizer(model, c, self.device, self.precision, ranks)
        self.schedule = build(SCHEDULES, c.schedule)
        self.average = build(AVERAGES, c.average)
        self.now, self.carrying = Progress(), Carrying()
        self.ends = False  # a report has asked for the end
        self.folder = RunFolder(hooks.out).checkpoints
        self.saved_at = time.monotonic()
        self.saved: dict[str, Any] = {}  # the counters of the newest checkpoint

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Train until a limit is reached; returns why it stopped."""
        self.model.train()
        began = time.monotonic() - self.now.seconds
        stream = self.batches.stream(self.now.place, first=self.ranks.number, every=self.ranks.count)
        with checkpoint.interruptible() as asked_to_stop:
            while not (reason := self.finished()):
                figures = self.step(list(islice(stream, self.c.accumulate // self.ranks.count)))
                self.now.place = self.batches.after(self.now.place, self.c.accumulate)
                self.now.seconds = self.ranks.first(time.monotonic() - began)
                self.report({"event": "train", **figures})
                if self.validation_due():
                    self.validate()
                interrupted, ends = self.ranks.sum(asked_to_stop(), self.ends)
                if interrupted:
                    self.save()
                    return "interrupted"
                if ends:
                    reason = "on_event asked for the end"
                    break
                if self.checkpoint_due():
                    self.save()
        self.save()  # so that Ctrl-C may cut the last validation off
        if self.now.validated != self.now.step:
            self.validate()
        return reason

    def step(self, batches: list[Placed]) -> dict[str, Any]:
        """One step of the optimiser on these batches and those of other ranks, weighted by what is asked of each."""
        self.now.step += 1
        rate = self.c.learning_rate * self.schedule(self.now.step, self.progress())
        self.unfreezing.at(self.epoch())
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        loss, tokens = self.gradients(batches, self.ranks)
        norm = clip_each(self.model, self.optimizer, self.c.clip or math.inf)
        if torch.isfinite(norm) and math.isfinite(loss):
            self.optimizer.step()
            self.average.after_step(self.model)
            self.now.bad_in_a_row = 0
        else:
            self.skip(batches)
        self.optimizer.zero_grad(set_to_none=True)
        self.now.tokens += tokens
        figures = {"step": self.now.step, "epoch": round(self.epoch(), 3), "loss": loss, "learning_rate": rate}
        return figures | {"gradient": float(norm), "tokens": tokens, "seconds": round(self.now.seconds, 2)}

    def gradients(self, batches: list[Placed], ranks: Ranks = ALONE) -> tuple[float, int]:
        """Mean loss over all that the batches of all ranks ask for, its gradients left on the parameters; and how many
        tokens or examples that were. What the model draws follows from the batch, not from those before it."""
        prepared = [self.objective.prepare(batch, generator(self.seed, place)) for batch, place in batches]
        asked_for, read = ranks.sum(
            sum(asked.count for asked in prepared), sum(asked.read or asked.count for asked in prepared)
        )
        count, total = max(1, asked_for), 0.0
        for asked, (batch, place) in zip(prepared, batches, strict=True):
            asked = asked.to(self.device)
            torch.manual_seed(seeds(self.seed, place)[1])
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision is torch.bfloat16):
                loss = self.objective.loss(self.carrying.ask(self.model, asked, batch), asked)
            (loss.total / count).backward()
            total += float(loss.total.detach()) / count
        if not self.c.shard:  # else the backward pass has done so
            ranks.sum_gradients(self.model)
        return ranks.sum(total)[0], int(read)

    def skip(self, batches: list[Placed]) -> None:
        """A loss or gradient that is not a number: leave the batch out, name it, go back if it keeps happening."""
        self.now.bad += 1
        self.now.bad_in_a_row += 1
        every = self.ranks.gather([batch.rows.tolist() for batch, _ in batches])
        rows = [row for turn in zip(*every, strict=True) for batch in turn for row in batch]  # in the stream's order
        self.carrying = Carrying()  # what such a batch has left
        self.report({"event": "bad", "step": self.now.step, "rows": rows, "count": self.now.bad})
        if self.now.bad >= BAD_AT_MOST:
            self.ranks.refuse(
                f"{self.now.bad} batches gave a loss that is not a number; the last good weights are in {self.folder}; "
                "begin anew with --restart and a lower --training.learning-rate, or --training.precision float32"
            )
        if self.now.bad_in_a_row >= BAD_IN_A_ROW and (saved := checkpoint.newest(self.folder, self.say)):
            self.restore_tensors(saved)  # the counters go on: the batches that did it are not read again
            self.now.bad_in_a_row = 0
            self.report({"event": "rollback", "step": self.now.step, "to": saved.state["step"]})

    # -- when to do what -----------------------------------------------------------------------------------------

    def epoch(self) -> float:
        return self.now.place.epoch + self.now.place.batch / self.batches.count(self.now.place.epoch)

    def limits(self) -> list[tuple[float, float, str]]:
        """How far the run is and how far it may go, by each limit that it has, and what is said when it gets there."""
        steps, epochs, minutes = self.c.steps, self.c.epochs, self.c.minutes
        limits = [
            (self.now.step, steps, f"{are(steps, 'steps')} done"),
            (self.epoch(), epochs, f"{are(epochs, 'epochs')} done"),
            (self.now.seconds / 60, minutes, f"{are(minutes, 'minutes')} over"),
        ]
        return [one for one in limits if one[1]]

    def progress(self) -> float:
        """How much of the run is done, by the limit that is nearest: 0 to 1; 0 if there is no limit."""
        return max((done / limit for done, limit, _ in self.limits()), default=0.0)

    def finished(self) -> str:
        if self.c.patience and self.now.stale >= self.c.patience:
            return f"no better validation for {self.c.patience} in a row"
        return next((said for done, limit, said in self.limits() if done >= limit), "")

    def validation_due(self) -> bool:
        if self.c.validate_every:
            return self.now.step % self.c.validate_every == 0
        return self.now.place.epoch > 0 and self.now.place.batch < self.c.accumulate

    def checkpoint_due(self) -> bool:
        by_step = self.c.checkpoint_steps and self.now.step % self.c.checkpoint_steps == 0
        by_time = time.monotonic() - self.saved_at >= 60 * self.c.checkpoint_minutes
        return bool(by_step) or bool(self.ranks.first(by_time) if self.c.shard else by_time)

    def validate(self) -> None:
        """Judge the averaged weights; keep them as the model if they are the best so far."""
        self.now.validated = self.now.step
        self.average.at_validation(self.model)
        with averaged(self.model, self.average.weights(self.model)):
            with readable(self.model):
                figures = self.hooks.validate(self.model)
            if self.c.best_by not in figures:
                known = ", ".join(sorted(figures.keys() & FIGURES.keys()))
                self.ranks.refuse(f"this objective measures no {self.c.best_by}; --restart with best_by of: {known}")
            value = self.ranks.first(better(self.c.best_by, figures[self.c.best_by]))
            is_best = value > (-math.inf if self.now.best is None else self.now.best)  # never, if not a number
            self.now.stale += 1
            if is_best:
                self.now.best, self.now.best_step, self.now.stale = value, self.now.step, 0
            weights = gathered(self.model) if is_best and (self.ranks.is_first or self.c.shard) else {}
            if is_best and self.ranks.is_first:
                self.hooks.save_model(weights, self.hooks.out)
        self.model.train()
        event = {"event": "valid", "step": self.now.step, "epoch": round(self.epoch(), 3), "best": is_best}
        self.report({**event, **figures, "peak_memory": peak_memory()})
        self.save()

    def probe(self, samples: int = 3) -> float:
        """Try the largest batch, so that memory runs out now or never; then seconds for a batch of usual size."""
        carrying, self.carrying = self.carrying, Carrying()
        self.model.train()
        with averaged(self.model, {}):  # the moving baselines of hard attention come back as they were
            self.gradients([(self.batches.largest(), Place())])
            began = time.monotonic()
            for one in islice(self.batches.stream(), samples):
                self.gradients([one])
        seconds = (time.monotonic() - began) / samples
        self.optimizer.zero_grad(set_to_none=True)
        self.carrying = carrying
        return seconds

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint, unless the newest one is of this very moment: the first rank, of all that have shares."""
        if (state := asdict(self.now)) == self.saved or not (self.ranks.is_first or self.c.shard):
            return
        tensors = {f"average.{name}": value for name, value in self.average.tensors().items()}
        tensors |= {f"carried.{i}": value for i, value in enumerate(self.carrying.state)}
        tensors |= {f"optimizer.{name}": value for name, value in state_of(self.optimizer).items()}
        # Weights and average may share storage, which safetensors refuses: each tensor is its own copy.
        tensors = {name: whole(value.detach()).to("cpu", copy=True) for name, value in tensors.items()}
        weights = gathered(self.model)
        if self.ranks.is_first:
            checkpoint.save(self.folder, self.now.step, partial(self.hooks.save_model, weights), tensors, state)
            checkpoint.tidy(self.folder, self.c.keep)
        self.saved, self.saved_at = state, time.monotonic()

    def resume(self) -> bool:
        """Go on from the newest whole checkpoint, if there is one."""
        if (saved := checkpoint.newest(self.folder, self.say)) is None:
            return False
        carried = self.restore_tensors(saved)["carried"]
        self.carrying.state = tuple(carried[str(i)].to(self.device) for i in range(len(carried)))
        self.now = Progress(**{**saved.state, "place": Place(**saved.state["place"])})
        self.saved = asdict(self.now)
        return True

    def restore_tensors(self, saved: checkpoint.Checkpoint) -> dict[str, dict[str, Tensor]]:
        """Weights, average and optimiser as they were; all tensors, by their kind."""
        own = dict(self.model.named_parameters())
        fill(self.model, {n: shared_as(t, own.get(n)) for n, t in saved.weights.items()}, self.folder)
        groups = defaultdict[str, dict[str, Tensor]](dict)
        for key, value in saved.tensors.items():
            kind, name = key.split(".", 1)
            groups[kind][name] = value
        # An average calls each weight by its name, behind a word of its own.
        kept = {name: shared_as(value, own.get(name.split(".", 1)[-1])) for name, value in groups["average"].items()}
        self.average.restore({name: value.to(self.device) for name, value in kept.items()})
        restore_state(self.optimizer, groups["optimizer"])
        return groups

    def report(self, event: dict[str, Any]) -> None:
        self.ends |= self.hooks.report(event) is True

    def say(self, sentence: str) -> None:
        self.report({"event": "note", "text": sentence})
