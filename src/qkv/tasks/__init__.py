"""What a model can be trained to do; chosen by the names in TASKS."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qkv import folder, training
from qkv.config import Tree, read_toml
from qkv.errors import InputError, nearest
from qkv.models import MODELS
from qkv.tasks import settings as of_tasks
from qkv.tasks.classification import Classify
from qkv.tasks.cloze import ReadCloze
from qkv.tasks.figures import Figures
from qkv.tasks.heads import FindHeads
from qkv.tasks.reading import read_files
from qkv.tasks.run import train_task
from qkv.tasks.task import Task
from qkv.tasks.translation import Translate
from qkv.training.course import Trained, asked_for
from qkv.training.settings import complete as complete_translation

TASKS: dict[str, type[Task]] = {
    "translate": Translate,
    "classify": Classify,
    "cloze": ReadCloze,
    "heads": FindHeads,
}

__all__ = ["TASKS", "Task", "complete", "predict", "score", "task_of", "train"]


def train(
    *files: str | Path, task: str = "", out: str | Path = "model", valid: Sequence[str | Path] = (),
    test: Sequence[str | Path] = (), recipe: str | Path | None = None, restart: bool = False, quiet: bool = False,
    **settings: Any,
) -> Trained:  # fmt: skip
    """Train a model of a task on its files; the same call again goes on where it stopped.

    >>> qkv.train("pairs.tmx", source="en", target="de", out="model", training={"minutes": 30}, model={"d_model": 256})
    >>> qkv.train("train.tsv", task="classify", valid=["valid.tsv"], out="model")

    `settings` are trees of the sections data, model, objective and training, as in a recipe.
    """
    asked = asked_for(files, valid, test, recipe, {**settings, **({"task": task} if task else {})})
    kind = named(asked, Path(out), restart)
    where = str(recipe) if recipe else "settings"
    if kind is Translate:
        return training.train(
            *files, out=out, valid=valid, test=test, recipe=recipe, restart=restart, quiet=quiet, **settings
        )
    return train_task(kind, asked, out=Path(out), where=where, restart=restart, quiet=quiet)


def named(asked: Mapping[str, Any], out: Path, restart: bool) -> type[Task]:
    """The task that is asked for, by name or by recipe; or the one of the run that `out` holds."""
    recipe = out / "training" / "recipe.toml"
    stored = str(read_toml(recipe).get("task", "translate")) if recipe.exists() and not restart else ""
    name = str(asked.get("task") or stored or "translate")
    if name not in TASKS:
        raise InputError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    if stored and name != stored:
        raise InputError(
            f"this run began with task = {stored!r}, now it is {name!r}; give a new --out, or --restart to begin anew"
        )
    return TASKS[name]


def complete(tree: Mapping[str, Any], where: str) -> Any:
    """The settings of a recipe of any task."""
    kind = named(tree, Path(), restart=True)
    return complete_translation(tree, where) if kind is Translate else of_tasks.complete(kind, tree, where)


def predict(model: str | Path, texts: Sequence[str], device: str = "cpu") -> list[Tree]:
    """What a trained model of a task says to some texts: a plain tree for each."""
    loaded = folder.load(Path(model), device)
    return asked_of(loaded).predict(loaded, texts)


def score(model: str | Path, *files: str | Path, device: str = "cpu") -> Tree:
    """What a trained model of a task is worth on files of examples: loss, accuracy, and of classes macro_f1 and mcc."""
    loaded = folder.load(Path(model), device)
    task = asked_of(loaded)
    if not files:
        raise InputError(f"no file was given; the task {task.name!r} reads {task.files}")
    examples = read_files(task, [Path(file) for file in files])
    if not examples:
        raise InputError(f"there is nothing to score: {', '.join(map(str, files))} has no examples; give at least one")
    batches = task.batches(task.encode(examples, loaded.tokenizer, loaded.about))
    figures = Figures(task, task.objective_class(), batches)(loaded.model)
    return {"task": task.name, "examples": len(examples), **figures}


def asked_of(loaded: folder.Loaded) -> Task:
    """The task of a trained model, with the settings that it remembers of its data."""
    kind = TASKS[loaded.model.task]
    known = {name: value for name, value in loaded.about.items() if name in kind.data_class.__dataclass_fields__}
    return kind(kind.data_class(**known))


def task_of(model: str | Path) -> str:
    """The name of the task that a model folder was trained for."""
    name = str(folder.read_config(Path(model)).get("model_type", "")).removeprefix("qkv-")
    return MODELS[name].task if name in MODELS else "translate"
