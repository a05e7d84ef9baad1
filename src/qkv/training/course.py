"""The course of a run, whatever it learns: settings written down, training, telling, and going on after a stop."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from qkv import folder
from qkv.config import Tree, merge, read_toml
from qkv.data import Stream
from qkv.errors import InputError
from qkv.files import alone, remove
from qkv.models import MODELS, Model, count_parameters
from qkv.text.tokenizer import Tokenizer
from qkv.training import checkpoint, prepare
from qkv.training.display import Display, duration
from qkv.training.log import Log
from qkv.training.recipes import find
from qkv.training.settings import paths, spelled_out
from qkv.training.trainer import Hooks, Trainer

# What may change when a run goes on: when it stops and what it runs on, never what it computes.
FREE = {
    "steps",
    "epochs",
    "minutes",
    "patience",
    "bleu_sentences",
    "checkpoint_minutes",
    "checkpoint_steps",
    "keep",
    "threads",
}
ASIDE = ".training.old.part"  # where an old run goes while it is removed


@dataclass(frozen=True)
class Trained:
    """What a run came to."""

    out: Path
    stopped: str  # why
    steps: int
    epochs: float
    minutes: float
    best: dict[str, float]  # the figures of the validation whose weights are kept


@dataclass(frozen=True)
class Work:
    """What a run trains on and is judged by."""

    batches: Stream
    validate: Callable[[Any], dict[str, float]]
    about: Tree  # what config.json tells beside the model's settings
    told: str  # how many examples there are, for people


def asked_for(
    train: Sequence[str | Path], valid: Sequence[str | Path], test: Sequence[str | Path], recipe: str | Path | None,
    settings: Tree,
) -> Tree:  # fmt: skip
    """What a person asks for: the recipe's settings, and laid over them what is given beside it."""
    lists = (("train", train), ("valid", valid), ("test", test))
    given = {name: [str(path) for path in several] for name, several in lists if several}
    written = read_toml(find(recipe)) if recipe else {}
    written.pop("vary", None)  # the rows of a comparison are not of one run
    written.pop("files", None)  # the digests in a run's own recipe.toml are of that run, not settings
    return merge(written, given, settings)


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Only one run at a time writes to a folder."""
    check_out(out)
    taken = f"another qkv is training into {out}; wait for it, or give a new --out"
    with ExitStack() as stack:
        with checkpoint.explained(out):
            stack.enter_context(alone(out / "training.lock", taken))
        yield


def check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give --out the name of a new folder")


class Course:
    """The steps of a run in their order; state is in the folder, so that any step may be the last.

    A subclass says how settings are read (`complete`), how a new run begins (`prepared`) and what it works on (`work`).
    """

    def __init__(self, out: Path, asked: Tree, display: Display, restart: bool, where: str) -> None:
        self.out, self.asked, self.display, self.say, self.where = out, asked, display, display.say, where
        self.place = out / "training"
        self.recipe = self.place / "recipe.toml"
        self.goes_on = self.recipe.exists() and not restart
        if not self.recipe.exists():
            if checkpoint.existing(self.place / "checkpoints"):  # they would be taken for those of the new run
                raise InputError(f"{self.place} has checkpoints but no recipe.toml; remove it, or give a new --out")
            if (out / "config.json").exists() and not restart:
                raise InputError(f"{out} already holds a model; give a new --out, or --restart to replace it")
        for pattern in (".*.json.*.part", ".*.safetensors.*.part", ASIDE, "training/.*.part", "training/data/.*.part"):
            for left in out.glob(pattern):  # half-written, or half-removed, by a run that was killed
                remove(left)

    def clear(self) -> None:
        """Take an old run away, all at once; a new one calls this just before it writes, when nothing can be wrong."""
        if self.recipe.exists():  # a folder of that name that no run made is left alone
            remove(self.place.rename(self.out / ASIDE))

    def complete(self, tree: Tree, where: str) -> Any:
        """The whole settings, from what was given."""
        raise NotImplementedError

    def prepared(self) -> Any:
        """Begin: read the files, choose what was not given, `clear`, write tokenizer.json and recipe.toml."""
        raise NotImplementedError

    def work(self, settings: Any, tokenizer: Tokenizer) -> Work:
        raise NotImplementedError

    @property
    def example(self) -> str:
        """What a person may do with the model."""
        return f'qkv translate "..." --model {self.out}'

    def go(self) -> Trained:
        settings = self.resumed() if self.goes_on else self.prepared()
        tokenizer = Tokenizer.load(self.place / "tokenizer.json")
        work = self.work(settings, tokenizer)
        torch.manual_seed(settings.data.seed)
        model = MODELS[settings.architecture](settings.model)
        save = lambda model, path: folder.save(path, model, tokenizer, work.about)  # noqa: E731
        hooks = Hooks(work.validate, save, self.event, self.out)
        self.trainer = Trainer(model, settings.objective, work.batches, settings.training, hooks)
        went_on = self.trainer.resume()
        self.announce(settings, model, work, went_on)
        with checkpoint.explained(self.out):
            self.log = Log(self.place, self.trainer.now.step)
            try:
                with self.display.training():
                    stopped = self.trainer.run()
            finally:
                self.log.close()
            return self.summary(stopped)

    def resumed(self) -> Any:
        """The settings that the run began with; what is asked now may change when it ends, nothing else."""
        stored = read_toml(self.recipe)
        files = stored.pop("files", {})
        for name, expected in files.items():
            path = paths([name])[0]
            if not path.exists() or prepare.digest(path) != expected:
                raise InputError(
                    f"{path} has changed since this run began; give a new --out, or --restart to begin anew"
                )
        before = self.complete(stored, str(self.recipe))
        limits = {"steps": 0, "epochs": 0.0, "minutes": 0.0}
        asked_limits = {k: v for k, v in self.asked.get("training", {}).items() if k in limits and v}
        now = merge(stored, self.asked, {"training": {**limits, **asked_limits}} if asked_limits else {})
        settings = self.complete({**now, "model": merge(stored["model"], asked_model(self.asked))}, str(self.recipe))
        for section in (field.name for field in fields(before) if field.name != "published"):
            old, new = (getattr(which, section) for which in (before, settings))
            for key, value in vars(old).items() if hasattr(old, "__dict__") else [("", old)]:
                changed = getattr(new, key) if key else new
                if value != changed and not (section == "training" and key in FREE):
                    name = f"{section}.{key}" if key else section
                    raise InputError(
                        f"this run began with {name} = {value!r}, now it is {changed!r}; "
                        "give a new --out, or --restart to begin anew"
                    )
        return settings

    # -- telling -------------------------------------------------------------------------------------------------

    def announce(self, settings: Any, model: Model, work: Work, went_on: bool) -> None:
        t = self.trainer
        self.say(f"{work.told}; {settings.model.vocab_size:,} sub-words")
        self.say(
            f"{settings.architecture} of {count_parameters(model) / 1e6:.1f} M parameters ({model.sizes()}), batches "
            f"of {settings.data.batch_tokens:,} tokens, on {t.device} in {str(t.precision).removeprefix('torch.')}"
        )
        if went_on:
            self.say(f"going on from step {t.now.step:,} ({duration(t.now.seconds)} of training so far)")
        self.pace = t.probe() * settings.training.accumulate
        self.say(f"limits: {self.limits(settings)}; {self.plan()}. Settings and log are in {self.place}")

    def limits(self, settings: Any) -> str:
        c = settings.training
        said = [f"{c.epochs:g} epochs"] * bool(c.epochs) + [f"{c.steps:,} steps"] * bool(c.steps)
        said += [f"{c.minutes:g} minutes"] * bool(c.minutes)
        said += [f"{c.patience} validations without a better one"] * bool(c.patience)
        return ", ".join(said) or "none (Ctrl-C stops and saves)"

    def plan(self) -> str:
        left = self.left(measured=False)
        return (
            f"about {duration(left)} at {self.pace:.2f} s a step" if left is not None else f"{self.pace:.2f} s a step"
        )

    def left(self, measured: bool = True) -> float | None:
        """Seconds to the nearest limit: by what the run has taken so far, or by the pace of the first batches."""
        t, c = self.trainer, self.trainer.c
        if measured and (done := t.progress()) > 0.02:
            return t.now.seconds * (1 - done) / done
        per_epoch = t.batches.count(0) / c.accumulate
        options = [(c.steps - t.now.step) * self.pace] if c.steps else []
        options += [(c.epochs - t.epoch()) * per_epoch * self.pace] if c.epochs else []
        options += [c.minutes * 60 - t.now.seconds] if c.minutes else []
        nearest = min(options, default=math.inf)
        return max(0.0, nearest) if math.isfinite(nearest) else None

    def event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "note":
            self.say(event["text"])
            return
        self.log.event(event)
        if kind == "train":
            self.display.step(event, self.trainer.progress(), self.left())
        elif kind == "valid":
            self.display.validated(event)
            self.log.draw(at_least=30)
        elif kind == "bad":
            self.say(
                f"step {event['step']:,}: the loss is not a number; batch left out "
                f"({event['count']} so far, its pairs are in the log)"
            )
        elif kind == "rollback":
            self.say(
                f"step {event['step']:,}: again and again not a number; back to the weights of step {event['to']:,}"
            )

    def summary(self, stopped: str) -> Trained:
        t = self.trainer
        if problem := self.log.draw():
            self.say(f"no picture of the curves: {problem}")
        if stopped == "interrupted":
            self.say(f"stopped at step {t.now.step:,}, all saved; the same command goes on from here")
        elif t.now.best is None:
            raise InputError(
                f"no validation gave a number, so there is no model of this run in {self.out}; begin anew with "
                "--restart and a lower --training.learning-rate"
            )
        else:
            self.say(f"done: {stopped}, after {t.now.step:,} steps in {duration(t.now.seconds)}")
            self.say(f"the best weights (step {t.now.best_step:,}) are in {self.out}; try: {self.example}")
        return Trained(self.out, stopped, t.now.step, t.epoch(), t.now.seconds / 60, self.log.best)


def asked_model(asked: Tree) -> Tree:
    """What is asked of the model, its preset spelled out but for dropout, which follows the size of the corpus."""
    model = asked.get("model", {})
    return {key: value for key, value in spelled_out(asked, "settings").items() if key != "dropout" or key in model}
