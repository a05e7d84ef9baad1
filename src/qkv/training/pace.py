"""How long a run takes: steps and validations by their own measured pace."""

import math
import time
from collections import deque
from dataclasses import replace

import torch

from qkv.folder import Loaded
from qkv.tasks import Corpus, Task
from qkv.training.settings import TrainingConfig
from qkv.training.trainer import Trainer

READING = 1 / 3  # of a batch's time in training, what reading it alone takes: there is no way back
WRITTEN = ("bleu", "rouge_l")  # figures of what a model writes
SOME = 20  # sentences that are written to see how long it takes
LEARNED = 1 / 3  # of the time that new weights write for, what those take that have learned to end a sentence
RECENT, SHARE = 60.0, 0.1  # seconds, and of all that have passed: the steps by which those to come are judged


def of_writing(task: Task, loaded: Loaded, corpus: Corpus, c: TrainingConfig) -> float:
    """Seconds that a validation writes for, by some sentences that are written with the weights as they are."""
    few = replace(c, bleu_sentences=min(SOME, c.bleu_sentences), best_by="loss")
    began = time.monotonic()
    with torch.inference_mode():
        task.judge(loaded, corpus, few)()
    return (time.monotonic() - began) * max(1.0, c.bleu_sentences / SOME)


def of_validation(trainer: Trainer, task: Task, loaded: Loaded, corpus: Corpus, batch: float) -> float:
    """Seconds of a validation before there has been one, by a batch's in training. Writing is tried where the end of
    the run depends on it; not by one of several ranks, which write together."""
    c, reading = trainer.c, task.validation(corpus.valid).count(0) * batch * READING
    is_tried = (c.steps or c.epochs) and trainer.ranks.count == 1 and task.score in WRITTEN
    return reading + LEARNED * of_writing(task, loaded, corpus, c) if is_tried else reading


class TimeLeft:
    """Seconds to the nearest limit. Steps and validations are measured apart, since the first validation may come long
    after the first steps; and both by the last of them: other work on the machine comes and goes, and a model that has
    learned to end its sentences is validated sooner."""

    def __init__(self, trainer: Trainer, pace: float, validation: float) -> None:
        self.trainer, self.pace, self.validation = trainer, pace, validation  # seconds of each, as they were tried
        self.began = self.last = time.monotonic()
        self.steps, self.stepping = deque[float](), 0.0  # seconds of each of the last, and of all of these
        self.validations, self.was_validation = deque[float](maxlen=3), False

    def event(self, kind: str) -> None:
        if kind not in ("train", "valid"):
            return
        now = time.monotonic()
        took, self.last = now - self.last, now
        if kind == "valid":
            self.validations.append(took)
            self.was_validation = True
            return
        if self.was_validation:  # what a step takes longer than others was spent on writing the checkpoint
            self.validations[-1] += max(0.0, took - self.of_step())
            took, self.was_validation = min(took, self.of_step()), False
        self.steps.append(took)
        self.stepping += took
        while self.stepping - self.steps[0] > max(RECENT, SHARE * (now - self.began)):
            self.stepping -= self.steps.popleft()

    def of_step(self) -> float:
        return self.stepping / len(self.steps) if len(self.steps) >= 3 else self.pace

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
        one = sum(self.validations) / len(self.validations) if self.validations else self.validation
        return steps * self.of_step() + math.ceil(steps / every) * one
