"""A whole run of a task, from its files to a model folder, with its baselines beside it: `qkv train --task NAME`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from qkv.config import Tree, merge, read_toml
from qkv.data.examples import Examples
from qkv.errors import InputError
from qkv.files import write_json, write_text
from qkv.folder import Loaded
from qkv.models import MODELS
from qkv.tasks.settings import TaskSettings, complete, with_defaults
from qkv.tasks.task import Task
from qkv.text.lines import check_file
from qkv.text.tokenizer import Tokenizer
from qkv.training import prepare
from qkv.training.checkpoint import explained
from qkv.training.course import Course, Trained, Work, alone_in
from qkv.training.display import Display
from qkv.training.settings import paths
from qkv.training.toml import to_toml

RESULTS = "results.json"


@dataclass(frozen=True)
class Read:
    """The examples of a run as `Task.read` gives them."""

    train: list[Any]
    valid: list[Any]


def train_task(
    task: type[Task], asked: Tree, *, out: Path, where: str = "settings", restart: bool = False, quiet: bool = False
) -> Trained:
    """Train a model of the task; the same call again goes on where it stopped. `asked` is a tree as in a recipe."""
    complete(task, asked, where)
    with alone_in(out):
        return TaskRun(task, out, asked, Display(quiet), restart, where).go()


class TaskRun(Course):
    """The run of a task whose examples fit in memory. They are read again when it goes on, and are the same."""

    def __init__(self, task: type[Task], out: Path, asked: Tree, display: Display, restart: bool, where: str) -> None:
        super().__init__(out, asked, display, restart, where)
        self.kind = task
        display.unit = "examples"
        self.read_once: Read | None = None

    def complete(self, tree: Tree, where: str) -> TaskSettings:
        return complete(self.kind, tree, where)

    @property
    def example(self) -> str:
        return f'qkv predict "{self.kind.asks}" --model {self.out}'

    def prepared(self) -> TaskSettings:
        """Read the files, learn the sub-words, measure the baselines, write down the settings."""
        self.asked = with_defaults(self.kind, self.asked)
        settings = self.complete(self.asked, self.where)
        if not settings.train:
            raise InputError(f"no file was given; the task {self.kind.name!r} reads {self.kind.files}")
        task, read = self.kind(settings.data), self.read(settings)
        tokenizer = task.learn_tokenizer(read.train)
        facts = task.facts(read.train)
        settings = self.fitted(settings, task.fitting(facts, tokenizer))
        files = paths([*settings.train, *settings.valid, *settings.test])
        torch.manual_seed(settings.data.seed)
        loaded = Loaded(MODELS[settings.architecture](settings.model), tokenizer, facts)
        train, valid = (task.encode(part, tokenizer, facts) for part in (read.train, read.valid))
        self.say(f"{len(train):,} examples to train on, {len(valid):,} to validate; measuring the baselines")
        baselines = task.baselines(train, valid, loaded)
        with explained(self.out):
            tokenizer.save(self.place / "tokenizer.json")
            write_json(self.place / "baselines.json", baselines)
            write_text(self.recipe, to_toml(settings, {str(path): prepare.digest(path) for path in files}))
        return settings

    def resumed(self) -> TaskSettings:
        """A default is no wish: what is not asked for now is what the run began with."""
        self.asked = {"architecture": read_toml(self.recipe)["architecture"], **self.asked}
        settings: TaskSettings = super().resumed()
        return settings

    def fitted(self, settings: TaskSettings, fitting: Tree) -> TaskSettings:
        """With the settings of the model that follow from the data; a person may leave them out, not change them."""
        asked = self.asked.get("model", {})
        for key, value in fitting.items():
            if asked.get(key, value) != value:
                raise InputError(f"model.{key} is {asked[key]!r}, but the data asks for {value!r}; leave it out")
        return self.complete(merge(self.asked, {"model": fitting}), self.where)

    def work(self, settings: TaskSettings, tokenizer: Tokenizer) -> Work:
        task, read = self.kind(settings.data), self.read(settings)
        facts = task.facts(read.train)
        train, valid = (self.batches(task, part, tokenizer, facts, settings) for part in (read.train, read.valid))
        told = f"{task.name}: {len(train):,} examples to train on, {len(valid):,} to validate"
        return Work(train, Figures(settings.objective, valid), {"task": task.name, **facts}, told)

    def batches(
        self, task: Task, examples: list[Any], tokenizer: Tokenizer, facts: Tree, settings: TaskSettings
    ) -> Examples:
        encoded = task.encode(examples, tokenizer, facts)
        sizes = [task.size(one) for one in encoded]
        c = settings.data
        return Examples(encoded, sizes, task.collate, tokens=c.batch_tokens, seed=c.seed)

    def read(self, settings: TaskSettings) -> Read:
        """The examples of the files. Without validation files, some are held out by their keys: the same ones in every
        run, one in ten at most. A training example with the key of one to validate or to test is dropped."""
        if self.read_once is None:
            task = self.kind(settings.data)
            train, valid, test = (self.examples(task, getattr(settings, name)) for name in ("train", "valid", "test"))
            if not settings.valid:
                lots = sorted({prepare.lot("valid", task.key(one)) for one in train})
                most = lots[min(settings.data.held_out, max(1, len(lots) // 10), len(lots)) - 1]
                valid = [one for one in train if prepare.lot("valid", task.key(one)) <= most]
            kept_out = {task.key(one) for one in (*valid, *test)}
            kept = [one for one in train if task.key(one) not in kept_out]
            if settings.valid and len(kept) < len(train):
                self.say(f"  {len(train) - len(kept):,} training examples are also to validate or to test: dropped")
            if not kept or not valid:
                raise InputError(f"{len(kept)} examples to train on and {len(valid)} to validate are left; give more")
            self.read_once = Read(kept, valid)
        return self.read_once

    def examples(self, task: Task, names: list[str]) -> list[Any]:
        found: list[Any] = []
        for path in paths(names):
            check_file(path)
            found += task.read(path)
        return found

    def summary(self, stopped: str) -> Trained:
        """Print the result beside the baselines, and write both to results.json in the model folder."""
        trained = super().summary(stopped)
        baselines = json.loads((self.place / "baselines.json").read_text(encoding="utf-8"))
        results = {"task": self.kind.name, "valid": trained.best, "baselines": baselines}
        figures = {"this model": trained.best.get("accuracy", 0.0), **baselines}
        write_json(self.out / RESULTS, {**results, "steps": trained.steps, "minutes": round(trained.minutes, 2)})
        self.say("accuracy on the validation examples, beside baselines from the same training examples:")
        for name, accuracy in figures.items():
            self.say(f"  {accuracy:7.2%}  {name}")
        return trained


class Figures:
    """The loss over all validation examples, and each part of it that the objective names: accuracy, for example."""

    def __init__(self, objective: Any, valid: Examples) -> None:
        self.objective, self.valid = objective, valid

    @torch.inference_mode()
    def __call__(self, model: Any) -> dict[str, float]:
        model.eval()
        device, sums, count = next(model.parameters()).device, dict[str, float](), 0
        for batch in self.valid.in_order():
            inputs, labels = self.objective.prepare(batch.to(device))
            loss = self.objective.loss(model(*inputs), labels)
            for name, value in {"loss": loss.total, **loss.parts}.items():
                sums[name] = sums.get(name, 0.0) + float(value)
            count += loss.tokens
        return {name: value / count for name, value in sums.items()}
