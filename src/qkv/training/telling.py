"""What a run tells: to people what it does and how long it takes, to its log everything, at the end what it came to."""

import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any

from rich.progress import BarColumn

from qkv.display import Display, duration
from qkv.errors import InputError
from qkv.evaluation import FIGURES, in_words, is_of_part
from qkv.files import read_json, write_json, write_text
from qkv.folder import RunFolder
from qkv.look import draw_curves
from qkv.models import count_parameters
from qkv.tasks import Task
from qkv.training.pace import TimeLeft
from qkv.training.settings import Settings
from qkv.training.trainer import Trainer
from qkv.wording import count_of

OnEvent = Callable[[dict[str, Any]], object]  # sees each record; True ends the run
SHOWN = ("loss", "perplexity", "bleu", "rouge_l", "accuracy", "pearson", "f1", "mean")  # of all figures of a validation
EVERY = 1.0  # seconds of training that one line of the log stands for
DRAWN = 8  # lines of the log from which on its curves are drawn: those of a few seconds say nothing
BAR = 12  # columns
WORTH = ("step", "left", "loss", "speed", "valid", "epoch", "rate")  # parts of a line, by what a person wants most
SLOW = 15.0  # seconds between lines where no live line can be shown (a file, a pipe, CI)


class Log:
    """training/log.jsonl, and TensorBoard's if it is installed: steps are summed up, all else is a line of its own."""

    def __init__(self, folder: RunFolder, from_step: int) -> None:
        self.path, self.picture = folder.log, folder.curves
        self.best: dict[str, float] = {}  # the figures of the best validation
        self.lines = 0
        if self.path.exists():  # a killed run may have logged more than it saved
            kept = [line for line in self.path.read_text(encoding="utf-8").splitlines() if step_of(line) <= from_step]
            write_text(self.path, "".join(line + "\n" for line in kept))
            self.lines = len(kept)
            for line in kept:
                self.remember(json.loads(line))
        self.file = self.path.open("a", encoding="utf-8")
        self.board: Any = None
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder.place / "tensorboard"))
        self.waiting: list[dict[str, Any]] = []
        self.since = self.drawn = time.monotonic()

    def event(self, event: dict[str, Any]) -> None:
        if event["event"] != "train":
            self.remember(event)
            self.flush()
            self.write(event)
            return
        self.waiting.append(event)
        if time.monotonic() - self.since >= EVERY:
            self.flush()

    def flush(self) -> None:
        """One line for the steps since the last: mean loss, weighted by tokens, and tokens a second."""
        steps, elapsed = self.waiting, time.monotonic() - self.since
        self.waiting, self.since = [], time.monotonic()
        if steps:
            tokens = sum(step["tokens"] for step in steps)
            good = [step for step in steps if math.isfinite(step["loss"])]  # the others are lines of their own
            loss = sum(step["loss"] * step["tokens"] for step in good) / max(1, sum(step["tokens"] for step in good))
            speed = round(tokens / max(elapsed, 1e-9))
            self.write({**steps[-1], "loss": loss if good else None, "tokens": tokens, "tokens_per_second": speed})

    def write(self, event: dict[str, Any]) -> None:
        numbers = {name: value for name, value in event.items() if isinstance(value, float)}
        unknown = {name: None for name, value in numbers.items() if not math.isfinite(value)}  # JSON has no NaN
        print(json.dumps({**event, **unknown}), file=self.file, flush=True)
        self.lines += 1
        if self.board is not None and "step" in event:
            for name in numbers.keys() - unknown.keys():
                self.board.add_scalar(f"{event['event']}/{name}", numbers[name], event["step"])

    def remember(self, event: dict[str, Any]) -> None:
        if event.get("event") == "valid" and event.get("best"):
            self.best = {key: value for key, value in event.items() if isinstance(value, float)}

    def draw(self, at_least: float = 0.0) -> str:
        """Draw the curves, if there is enough to draw and the last picture is older than that many seconds; returns why
        not, if it cannot."""
        if self.lines >= DRAWN and time.monotonic() - self.drawn >= at_least:
            self.drawn = time.monotonic()
            try:
                draw_curves(self.path, self.picture)
            except InputError as error:
                return str(error)
        return ""

    def close(self) -> None:
        self.flush()
        self.file.close()
        if self.board is not None:
            self.board.close()


def step_of(line: str) -> float:
    try:
        return float(json.loads(line).get("step", 0))
    except (ValueError, AttributeError):
        return float("inf")  # half a line: the run was killed while it wrote


class Teller:
    """Sentences about one run, and the events of its trainer passed on."""

    def __init__(
        self, display: Display, folder: RunFolder, task: Task, settings: Settings, on_event: OnEvent | None = None
    ) -> None:
        self.display, self.say, self.folder, self.task, self.settings = display, display.say, folder, task, settings
        self.on_event = on_event
        self.recent: deque[tuple[float, int, float]] = deque(maxlen=50)  # when, tokens, loss
        self.printed, self.validation = 0.0, ""

    def announce(self, trainer: Trainer, counted: str, went_on: bool, pace: float, validation: float) -> None:
        """`pace` is in seconds a batch, `validation` in seconds, as they were tried."""
        self.trainer = t = trainer
        model: Any = t.model
        self.say(f"{counted}; {self.settings.model.vocab_size:,} sub-words")
        self.say(
            f"{self.settings.architecture} of {count_parameters(model) / 1e6:.1f} M parameters ({model.sizes()}), "
            f"batches of {self.settings.data.batch_tokens:,} tokens, on {t.device} in "
            f"{str(t.precision).removeprefix('torch.')}"
        )
        if went_on:
            self.say(f"going on from step {t.now.step:,} ({duration(t.now.seconds)} of training so far)")
        self.time = TimeLeft(t, pace * t.c.accumulate, validation)
        about = f"about {duration(left)} at " if (left := self.time.seconds()) is not None else ""
        plan = f"{about}{pace * t.c.accumulate:.2f} s a step"
        self.say(f"limits: {self.limits()}; {plan}. Settings and log are in {self.folder.place}")

    def limits(self) -> str:
        c = self.trainer.c
        limits = {"epochs": c.epochs, "steps": c.steps, "minutes": c.minutes}
        limits["validations without a better one"] = c.patience
        said = (count_of(limit, what) for what, limit in limits.items() if limit)
        return ", ".join(said) or "none (Ctrl-C stops and saves)"

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within, events are logged, and shown in a live line where there can be one."""
        self.log = Log(self.folder, self.trainer.now.step)
        columns = (BarColumn(BAR), "{task.percentage:>3.0f}%", "{task.description}")
        with closing(self.log), self.display.bar(*columns, transient=False) as self.update:
            yield

    def event(self, event: dict[str, Any]) -> bool:
        """Tell of an event; whether who listens asks for the run's end."""
        self.tell(event)
        return self.on_event is not None and self.on_event(dict(event)) is True

    def tell(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "note":
            self.say(event["text"])
            return
        self.time.event(kind)
        self.log.event(event)
        if kind == "train":
            self.step(event)
        elif kind == "valid":
            shown = {name: value for name, value in event.items() if name in SHOWN or is_of_part(name)}
            figures = in_words(shown)
            self.validation, best = f"valid: {figures}", " (best)" if event["best"] else ""
            self.say(f"epoch {event['epoch']:.2f}, step {event['step']:,}: validation {figures}{best}")
            self.log.draw(at_least=30)
        elif kind == "bad":
            left_out = f"batch left out ({event['count']} so far, its rows are in the log)"
            self.say(f"step {event['step']:,}: the loss is not a number; {left_out}")
        elif kind == "rollback":
            back = f"back to the weights of step {event['to']:,}"
            self.say(f"step {event['step']:,}: again and again not a number; {back}")

    def step(self, event: dict[str, Any]) -> None:
        now = time.monotonic()
        self.recent.append((now, event["tokens"], event["loss"]))
        if self.update:
            room = self.display.console.width - BAR - len(" 100% ")
            self.update(completed=self.trainer.progress(), description=joined(self.parts(event), room))
        elif now - self.printed >= SLOW:
            self.printed = now
            self.say(joined(self.parts(event)))

    def parts(self, event: dict[str, Any]) -> dict[str, str]:
        """What a line tells of a step."""
        seconds = self.recent[-1][0] - self.recent[0][0]
        tokens = sum(tokens for _, tokens, _ in islice(self.recent, 1, None))
        losses = [loss for _, _, loss in self.recent if math.isfinite(loss)]
        loss = sum(losses) / len(losses) if losses else math.nan
        speed = f"{tokens / seconds:,.0f} {self.task.speed}/s" if seconds else "measuring speed"
        ahead = f"{duration(left)} left" if (left := self.time.seconds()) is not None else ""
        parts = {
            "epoch": f"epoch {event['epoch']:.2f}", "step": f"step {event['step']:,}", "loss": f"loss {loss:.3f}",
            "rate": f"rate {event['learning_rate']:.2e}", "speed": speed, "left": ahead, "valid": self.validation,
        }  # fmt: skip
        return {name: part for name, part in parts.items() if part}

    def summary(self, stopped: str) -> None:
        t, out = self.trainer, self.folder.out
        if problem := self.log.draw():
            self.say(f"no picture of the curves: {problem}")
        if stopped == "interrupted":
            self.say(f"stopped at step {t.now.step:,}, all saved; the same command goes on from here")
            return
        if t.now.best is None:
            raise InputError(
                f"no validation gave a number, so there is no model of this run in {out}; begin anew with "
                "--restart and a lower --training.learning-rate"
            )
        self.say(f"done: {stopped}, after {count_of(t.now.step, 'steps')} in {duration(t.now.seconds)}")
        self.say(f"the best weights (step {t.now.best_step:,}) are in {out}; try: {self.task.asks} --model {out}")
        if self.folder.baselines.exists():
            self.beside_baselines()

    def beside_baselines(self) -> None:
        """Print the result beside the baselines, and write both to results.json in the model folder."""
        baselines = read_json(self.folder.baselines)
        now, best = self.trainer.now, self.log.best
        results = {"task": self.task.name, "valid": best, "baselines": baselines}
        write_json(self.folder.results, {**results, "steps": now.step, "minutes": round(now.seconds / 60, 2)})
        figure, score = FIGURES[self.task.score], self.task.score
        self.say(f"{figure.title} on what was held out, beside baselines from the same training data:")
        for name, value in {"this model": best.get(score, math.nan), **baselines}.items():
            self.say(f"  {figure.text(value):>7}{figure.after}  {name}")
        if len(self.task.figures) > 2:
            self.say(f"this model: {in_words(best)}")


def joined(parts: dict[str, str], width: float = math.inf) -> str:
    """A line of its parts in their order; if they are too many for so many columns, of those that are worth most."""
    chosen = ["step"]
    for name in WORTH[1:]:
        if name in parts and len(", ".join(parts[one] for one in [*chosen, name])) <= width:
            chosen.append(name)
    line = ", ".join(part for name, part in parts.items() if name in chosen)
    return line.replace(f"{parts['step']}, ", f"{parts['step']}: ")
