"""Opening a model folder: `qkv.load` gives what its task makes of it, whatever the task."""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from qkv import folder
from qkv.config import Tree
from qkv.decoding import Translator
from qkv.device import choose_device
from qkv.engines import open_translator
from qkv.errors import InputError, nearest
from qkv.models import MODELS
from qkv.tasks import TASKS, Task
from qkv.tasks.language_model import LanguageModel
from qkv.tasks.translation import Translate


def load(path: str | Path, device: str = "cpu", **how: Any) -> Any:
    """The Translator, Generator, Classifier or other thing that a model folder holds; nothing else is needed.

    >>> qkv.load("model").translate("Two dogs play in the snow.").text

    `how` is for models that write, see `engines.open_translator`: engine="int8", workers=2.
    """
    loaded = folder.load(Path(path), str(choose_device(device, "cpu")))
    task = task_in(loaded)
    known = list(signature(open_translator).parameters)[1:] if writes(type(task)) else []
    for name in how.keys() - set(known):
        what = nearest(name, known) if known else f"a model of the task {task.name!r} has none, leave it out"
        raise InputError(f"there is no option {name!r} for {path}; {what}")
    return task.open(loaded, **how)


def load_translator(path: str | Path, device: str = "cpu", **how: Any) -> Translator:
    """`load`, of a folder that must hold a translator."""
    if Path(path).is_dir() and (kind := task_in_folder(path)) is not Translate:
        raise InputError(f"{path} holds a model of the task {kind.name!r}, no translator; use: {kind.asks}")
    return load(path, device, **how)


def task_in(loaded: folder.Loaded) -> Task:
    """The task of a trained model, with the settings that it remembers of its data."""
    kind = known_task(loaded.about)
    settings = kind.data_class.__dataclass_fields__
    known: Tree = {name: value for name, value in loaded.about.items() if name in settings}
    name, _ = folder.origin(loaded.model)
    return kind(kind.data_class(**known), MODELS[name])


def score_files(path: str | Path, *files: str | Path, device: str = "cpu") -> Tree:
    """What a trained model is worth on files of examples: the figures of its task."""
    loaded = folder.load(Path(path), str(choose_device(device, "cpu")))
    task = task_in(loaded)
    if not files:
        raise InputError(f"no file was given; {task.name} reads {task.files}")
    examples = list(task.read([Path(file) for file in files]))
    if not examples:
        raise InputError(f"there is nothing to score: {', '.join(map(str, files))} has no examples; give at least one")
    return {"task": task.name, "examples": len(examples), **task.evaluate(loaded, examples)}


def writes(kind: type[Task]) -> bool:
    """Whether models of the task write texts, by an engine that can be chosen."""
    return issubclass(kind, Translate | LanguageModel)


def task_in_folder(path: str | Path) -> type[Task]:
    """The task that a model folder was trained for."""
    return known_task(folder.read_config(Path(path)))


def known_task(about: Mapping[str, Any]) -> type[Task]:
    """The task that a folder names; the first folders named none."""
    name = str(about.get("task", Translate.name))
    if name not in TASKS:
        raise InputError(f"the model is of a task {name!r}, which this qkv does not have; {nearest(name, TASKS)}")
    return TASKS[name]
