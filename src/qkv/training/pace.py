"""How long a run takes: steps and validations by their own measured pace."""

import math
import time

from qkv.training.trainer import Trainer

READING = 1 / 3  # of a batch's time in training, what reading it alone takes: there is no way back


class TimeLeft:
    """Seconds to the nearest limit. What a step and a validation take is measured apart, since the first validation may
    come long after the first steps; until then it is guessed by its batches."""

    def __init__(self, trainer: Trainer, pace: float, valid_batches: int) -> None:
        self.trainer, self.pace = trainer, pace  # seconds of a step, by the first batches
        self.guess = valid_batches * pace / trainer.c.accumulate * READING
        self.began = trainer.now.step, trainer.now.seconds
        self.validating, self.validations, self.stepped = 0.0, 0, time.monotonic()

    def event(self, kind: str) -> None:
        now = time.monotonic()
        if kind == "valid":
            self.validating += now - self.stepped
            self.validations += 1
        if kind in ("train", "valid"):
            self.stepped = now

    def seconds(self) -> float | None:
        """Of a run whose end is known; None of one that has none."""
        t, c = self.trainer, self.trainer.c
        per_epoch = t.batches.count(0) / c.accumulate
        steps = [float(c.steps - t.now.step)] if c.steps else []
        steps += [(c.epochs - t.epoch()) * per_epoch] if c.epochs else []
        options = [self.of_steps(some, c.validate_every or per_epoch) for some in steps if math.isfinite(some)]
        options += [c.minutes * 60 - t.now.seconds] if c.minutes and math.isfinite(c.minutes) else []
        return max(0.0, min(options)) if options else None

    def of_steps(self, steps: float, every: float) -> float:
        """Seconds of so many steps, with the validations among them and the one at the end."""
        step, seconds = self.trainer.now.step - self.began[0], self.trainer.now.seconds - self.began[1]
        pace = (seconds - self.validating) / step if step >= 3 else self.pace
        one = self.validating / self.validations if self.validations else self.guess
        return steps * pace + math.ceil(steps / every) * one
