"""A whole training run, from files of pairs to a model folder: what `qkv train` and `qkv.train` do."""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from qkv import folder
from qkv.config import Tree, merge, read_toml
from qkv.data import Batches, Corpus
from qkv.errors import InputError
from qkv.files import alone, remove, write_text
from qkv.models import MODELS, Model, count_parameters
from qkv.text import languages
from qkv.text.tokenizer import Tokenizer
from qkv.training import checkpoint, prepare
from qkv.training.choose import Corpus as Known
from qkv.training.choose import choose
from qkv.training.device import choose_device
from qkv.training.display import Display, duration
from qkv.training.judge import Judge
from qkv.training.log import Log
from qkv.training.recipes import find
from qkv.training.settings import Settings, check, complete, paths, spelled_out
from qkv.training.toml import to_toml
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
SECTIONS = ("source", "target", "train", "valid", "test", "architecture", "objective_name",
            "data", "model", "objective", "training")  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """What a run came to."""

    out: Path
    stopped: str  # why
    steps: int
    epochs: float
    minutes: float
    best: dict[str, float]  # the figures of the validation whose weights are kept


def train(
    *files: str | Path, source: str = "", target: str = "", out: str | Path = "model",
    valid: Sequence[str | Path] = (), test: Sequence[str | Path] = (), recipe: str | Path | None = None,
    restart: bool = False, quiet: bool = False, **settings: Any,
) -> Trained:  # fmt: skip
    """Train a translator on files of sentence pairs; the same call again goes on where it stopped.

    >>> qkv.train("pairs.tmx", source="en", target="de", out="model", training={"minutes": 30}, model={"d_model": 256})

    `settings` are trees of the sections data, model, objective and training, as in a recipe.
    """
    given: Tree = {name: str(value) for name, value in (("source", source), ("target", target)) if value}
    lists = (("train", files), ("valid", valid), ("test", test))
    given |= {name: [str(path) for path in several] for name, several in lists if several}
    written = read_toml(find(recipe)) if recipe else {}
    written.pop("files", None)  # the digests in a run's own recipe.toml are of that run, not settings
    asked = merge(written, given, settings)
    where = str(recipe) if recipe else "settings"
    check(asked, where)
    check_out(Path(out))
    taken = f"another qkv is training into {out}; wait for it, or give a new --out"
    with ExitStack() as stack:
        with checkpoint.explained(Path(out)):
            stack.enter_context(alone(Path(out) / "training.lock", taken))
        return Run(Path(out), asked, Display(quiet), restart, where).go()


class Run:
    """The steps of a run in their order; state is in the folder, so that any step may be the last."""

    def __init__(self, out: Path, asked: Tree, display: Display, restart: bool, where: str) -> None:
        self.out, self.asked, self.display, self.say, self.where = out, asked, display, display.say, where
        self.place = out / "training"
        self.recipe = self.place / "recipe.toml"
        if restart and self.recipe.exists():  # a folder of that name that no run made is left alone
            remove(self.place)
        for pattern in (".*.json.*.part", ".*.safetensors.*.part", "training/.*.part"):
            for left in out.glob(pattern):  # half-written by a run that was killed
                remove(left)

    def go(self) -> Trained:
        settings = self.resumed() if self.recipe.exists() else self.prepared()
        tokenizer = Tokenizer.load(self.place / "tokenizer.json")
        train, valid = (Corpus.open(self.place / "data" / name, tokenizer.fingerprint) for name in ("train", "valid"))
        torch.manual_seed(settings.data.seed)
        model = MODELS[settings.architecture](settings.model)
        judge = Judge(settings, tokenizer, valid)
        longest = max(int(train.lengths(shard)[:, 0].max(initial=0)) for shard in range(train.shards))
        about = {"source": settings.source, "target": settings.target, "longest_source": longest}
        batches = Batches(train, settings.data.batch_tokens, settings.data.seed)
        hooks = Hooks(judge, lambda model, path: folder.save(path, model, tokenizer, about), self.event, self.out)
        self.trainer = Trainer(model, settings.objective, batches, settings.training, hooks)
        went_on = self.trainer.resume()
        self.announce(settings, model, len(train), len(valid), went_on)
        with checkpoint.explained(self.out):
            self.log = Log(self.place, self.trainer.now.step)
            try:
                with self.display.training():
                    stopped = self.trainer.run()
            finally:
                self.log.close()
            return self.summary(stopped)

    # -- before training -----------------------------------------------------------------------------------------

    def prepared(self) -> Settings:
        """Read, examine and encode the files; choose what was not given; write down the settings."""
        if not self.asked.get("train"):
            raise InputError("no file was given; for example: qkv train pairs.tmx --from en --to de")
        train, valid, test = (paths(self.asked.get(name, [])) for name in ("train", "valid", "test"))
        guess = languages(train)
        names = {"source": guess[0] or "", "target": guess[1] or ""}
        # Sizes follow the corpus; until it is read, the smallest stand for them, which divide all others.
        partial = complete(merge(names, {"model": {"preset": "tiny"}}, self.asked), self.where)
        source = prepare.Source(train, valid, test, partial.source, partial.target, partial.data.doctor)
        with self.display.counting("reading", None) as tick:
            survey = source.survey(tick)
        self.tell_findings(survey)
        limits = self.asked.get("training", {})
        has_limit = any(limits.get(name) for name in ("steps", "epochs", "minutes"))
        device = choose_device(partial.training.device)
        chosen = choose(Known(survey.report.kept, survey.characters), device, has_limit)
        known = ["preset", *(field.name for field in fields(partial.model))]
        chosen["model"] = {key: value for key, value in chosen["model"].items() if key in known}
        tree = merge(names, chosen, self.asked)
        settings = complete(tree, self.where)
        MODELS[settings.architecture](settings.model)  # what cannot be built is refused before anything is written
        tokenizer = prepare.learn_tokenizer(settings.data, survey.sample)
        tree = merge(tree, {"model": self.fitting(settings, tokenizer)})
        settings = complete(tree, self.where)
        with checkpoint.explained(self.out), self.display.counting("encoding", survey.report.kept) as tick:
            tokenizer.save(self.place / "tokenizer.json")
            ready = prepare.write(self.place / "data", source, survey, tokenizer, settings.data, tick)
            write_text(self.recipe, to_toml(settings, survey.files))
        if ready.written.duplicates:
            self.say(f"  {ready.written.duplicates:,} pairs repeated another pair exactly: dropped")
        if ready.written.too_long:
            self.say(
                f"  {ready.written.too_long:,} pairs had over {settings.data.max_length} tokens on a side: dropped"
            )
        return settings

    def fitting(self, settings: Settings, tokenizer: Tokenizer) -> Tree:
        """What of the model follows from the data."""
        asked, vocabulary = self.asked.get("model", {}), len(tokenizer)
        if asked.get("vocab_size", vocabulary) != vocabulary:
            raise InputError(
                f"model.vocab_size is {asked['vocab_size']}, but the tokenizer has {vocabulary} entries; leave it out"
            )
        longest = settings.data.max_length + 2
        if asked.get("max_length", longest) < longest:
            raise InputError(f"model.max_length must be at least {longest}: data.max_length and two more; leave it out")
        fitted: Tree = {"vocab_size": vocabulary, "max_length": asked.get("max_length", max(longest, 256))}
        if "scope" in getattr(settings.model, "encoder_attention", ""):
            fitted["sentence_ends"] = tokenizer.sentence_ends()
        return fitted

    def tell_findings(self, survey: prepare.Survey) -> None:
        report = survey.report
        self.say(f"{report.read:,} pairs read, {report.kept:,} kept")
        for line in report.lines():
            self.say(f"  {line}")
        for line in survey.valid_report.lines():
            self.say(f"  validation: {line}")

    def resumed(self) -> Settings:
        """The settings that the run began with; what is asked now may change when it ends, nothing else."""
        stored = read_toml(self.recipe)
        files = stored.pop("files", {})
        for name, expected in files.items():
            path = paths([name])[0]
            if not path.exists() or prepare.digest(path) != expected:
                raise InputError(
                    f"{path} has changed since this run began; give a new --out, or --restart to begin anew"
                )
        before = complete(stored, str(self.recipe))
        limits = {"steps": 0, "epochs": 0.0, "minutes": 0.0}
        asked_limits = {k: v for k, v in self.asked.get("training", {}).items() if k in limits and v}
        now = merge(stored, self.asked, {"training": {**limits, **asked_limits}} if asked_limits else {})
        settings = complete({**now, "model": merge(stored["model"], asked_model(self.asked))}, str(self.recipe))
        for section in SECTIONS:
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

    def announce(self, settings: Settings, model: Model, pairs: int, held_out: int, went_on: bool) -> None:
        m, t = settings.model, self.trainer
        direction = f"{settings.source or 'source'} -> {settings.target or 'target'}"
        self.say(f"{direction}: {pairs:,} pairs to train on, {held_out:,} to validate; {m.vocab_size:,} sub-words")
        self.say(
            f"{settings.architecture} of {count_parameters(model) / 1e6:.1f} M parameters ({model.sizes()}), batches "
            f"of {settings.data.batch_tokens:,} tokens, on {t.device} in {str(t.precision).removeprefix('torch.')}"
        )
        if went_on:
            self.say(f"going on from step {t.now.step:,} ({duration(t.now.seconds)} of training so far)")
        self.pace = t.probe() * settings.training.accumulate
        self.say(f"limits: {self.limits(settings)}; {self.plan()}. Settings and log are in {self.place}")

    def limits(self, settings: Settings) -> str:
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
        else:
            self.say(f"done: {stopped}, after {t.now.step:,} steps in {duration(t.now.seconds)}")
            self.say(
                f"the best weights (step {t.now.best_step:,}) are in {self.out}; "
                f'try: qkv translate "..." --model {self.out}'
            )
        return Trained(self.out, stopped, t.now.step, t.epoch(), t.now.seconds / 60, self.log.best)


def check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give --out the name of a new folder")


def asked_model(asked: Tree) -> Tree:
    """What is asked of the model, its preset spelled out but for dropout, which follows the size of the corpus."""
    model = asked.get("model", {})
    return {key: value for key, value in spelled_out(asked, "settings").items() if key != "dropout" or key in model}
