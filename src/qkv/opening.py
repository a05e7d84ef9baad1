"""Opening a model folder: `qkv.load` gives what its task makes of it, whatever the task."""

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
    known = list(signature(open_translator).parameters)[1:] if isinstance(task, Translate | LanguageModel) else []
    for name in how.keys() - set(known):
        what = nearest(name, known) if known else f"a model of the task {task.name!r} has none, leave it out"
        raise InputError(f"there is no option {name!r} for {path}; {what}")
    return task.open(loaded, **how)


def load_translator(path: str | Path, device: str = "cpu", **how: Any) -> Translator:
    """`load`, of a folder that must hold a translator."""
    if Path(path).is_dir() and (name := task_in_folder(path)) in TASKS and TASKS[name] is not Translate:
        raise InputError(f"{path} holds a model of the task {name!r}, no translator; use: {TASKS[name].asks}")
    return load(path, device, **how)


def task_in(loaded: folder.Loaded) -> Task:
    """The task of a trained model, with the settings that it remembers of its data."""
    kind = TASKS[loaded.about.get("task", "translate")]
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


def task_in_folder(path: str | Path) -> str:
    """The name of the task that a model folder was trained for."""
    return str(folder.read_config(Path(path)).get("task", "translate"))
