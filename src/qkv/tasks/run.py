"""A whole run of a task, from its files to a model folder, with its baselines beside it: `qkv train --task NAME`."""

import json
from pathlib import Path

import torch

from qkv.config import Tree, merge, read_toml
from qkv.errors import InputError
from qkv.files import write_json, write_text
from qkv.folder import Loaded
from qkv.models import MODELS
from qkv.tasks.figures import Figures, told
from qkv.tasks.reading import Read, read_examples
from qkv.tasks.settings import TaskSettings, complete, with_defaults
from qkv.tasks.task import Task
from qkv.text.tokenizer import Tokenizer
from qkv.training import prepare
from qkv.training.checkpoint import explained
from qkv.training.course import Course, Trained, Work, alone_in
from qkv.training.display import Display
from qkv.training.settings import paths
from qkv.training.toml import to_toml

RESULTS = "results.json"


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
            self.clear()
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
        train, valid = (task.batches(task.encode(part, tokenizer, facts)) for part in (read.train, read.valid))
        counted = f"{task.name}: {len(train):,} examples to train on, {len(valid):,} to validate"
        return Work(train, Figures(task, settings.objective, valid), {"task": task.name, **facts}, counted)

    def read(self, settings: TaskSettings) -> Read:
        if self.read_once is None:
            self.read_once = read_examples(self.kind(settings.data), settings, self.say)
        return self.read_once

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
        if "macro_f1" in trained.best:
            self.say(f"this model: {told(trained.best)}")
        return trained
