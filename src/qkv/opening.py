"""Opening a model folder: `qkv.load` gives what its task makes of it, whatever the task.

Tasks are of torch. What translates or writes on is opened here without its task, so that an engine that needs no torch
imports none.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, cast

from qkv import folder
from qkv.bundled import located
from qkv.config import Tree
from qkv.decoding import Translator
from qkv.device import ENGINE, device_name
from qkv.engines import open_generator, open_translator
from qkv.errors import InputError, nearest
from qkv.text.frames import FRAMES, Pool

if TYPE_CHECKING:
    from qkv.engines.embedder import Embedder
    from qkv.engines.filler import Filler
    from qkv.tasks import Task


class Opener(NamedTuple):
    """The command that asks a model of some task, and what opens it: as its task says."""

    command: str
    open: Callable[..., Any]


TRANSLATES = "translate"  # the task of a folder that names none
EMBEDS = "embed"


class Opening(TypedDict, total=False):
    """How a model folder is opened; not every task has every option."""

    engine: str  # what searches or reads: auto, float32, int8, plain ...
    workers: int  # threads that the engine may use; 0 for as many as torch takes
    pool: Pool | None  # of an embedder: whose state is the vector of a text,
    normalise: bool | None  # and whether it is made to have the length 1


def load(
    path: str | Path, device: str = "cpu", *, task: str | None = None, beside: str | Path | None = None,
    **how: Unpack[Opening],
) -> Any:  # fmt: skip
    """The Translator, Generator, Classifier, Embedder or other thing that a model folder holds; nothing else is needed.

    >>> qkv.load("model").translate("Two dogs play in the snow.").text
    >>> qkv.load("en-de").translate("Where is the station?").text  # a translator that comes with qkv

    With task="embed", any folder with a backbone gives an Embedder. `how` are options of what is opened: of models that
    write those of `engines.open_translator`, engine="int8", workers=2. `beside` is a second classifier of the same
    labels, whose probabilities are averaged with those of the first.
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"{path!r:.60} ({type(path).__name__}) is no path; give that of a model folder, qkv.load('model')"
        )
    loaded = folder.look(path := located(path), device_name(device))
    own = task_named(loaded.about)
    name = task or own
    if name in OPENERS and name in (own, EMBEDS) and beside is None:
        check_options(path, name, cast(Tree, how), list(signature(OPENERS[name].open).parameters)[1:])
        return OPENERS[name].open(loaded, **cast(Tree, how))
    opened = task_in(loaded, task)
    check_options(path, opened.name, cast(Tree, how), options(opened))
    found = opened.open(loaded, **cast(Tree, how))
    if beside is not None:
        from qkv.tasks import Classifier

        if not isinstance(found, Classifier):
            raise InputError(f"{path} is of the task {opened.name!r}; only classifiers are averaged, leave beside out")
        found.join(load(beside, device, task=task, **how))
    return found


def open_filler(loaded: folder.Loaded) -> "Filler":
    """As the task fill opens a folder; without torch, where the native engine's file is there."""
    from qkv.engines.filler import Filler
    from qkv.engines.native.kept import file_of
    from qkv.engines.native.prediction import prediction_of

    file = file_of(loaded, ENGINE)
    if file is None or (found := prediction_of(loaded, file)) is None:
        return task_in(loaded).open(loaded)
    return Filler(loaded, frame=FRAMES[loaded.architecture], most=loaded.size, prediction=found)


def open_embedder(
    loaded: folder.Loaded, *, engine: str = ENGINE, pool: Pool | None = None, normalise: bool | None = None
) -> "Embedder":
    """As the task embed opens a folder; without torch, where the native engine's file is there."""
    from qkv.engines.embedder import Embedder
    from qkv.engines.native.kept import file_of

    about, most = loaded.about, loaded.about.get("max_length") or loaded.size
    if most > loaded.size or (file := file_of(loaded, engine)) is None:
        task: Any = task_in(loaded, EMBEDS)
        return task.open(loaded, engine=engine, pool=pool, normalise=normalise)
    return Embedder(
        loaded, frame=FRAMES[loaded.architecture], most=most, engine=engine, lowercase=about.get("lowercase", False),
        pool=pool or about.get("pool") or None, file=file,
        normalise=about.get("normalise", False) if normalise is None else normalise,
    )  # fmt: skip


OPENERS = {
    TRANSLATES: Opener("translate", open_translator), "language_model": Opener("generate", open_generator),
    "fill": Opener("fill", open_filler), EMBEDS: Opener("embed", open_embedder),
}  # fmt: skip


def check_options(path: str | Path, task: str, how: Iterable[str], known: list[str]) -> None:
    for name in set(how) - set(known):
        what = nearest(name, known) if known else f"a model of the task {task!r} has none, leave it out"
        raise InputError(f"there is no option {name!r} for {path}; {what}")


def options(task: "Task") -> list[str]:
    """What `open` of a task may be asked; an engine's options where it takes any."""
    asked = signature(task.open).parameters
    return writer_options() if "how" in asked else list(asked)[1:]


def writer_options() -> list[str]:
    return list(signature(open_translator).parameters)[1:]


def load_translator(path: str | Path, device: str = "cpu", **how: Any) -> Translator:
    """`load`, of a folder that must hold a translator."""
    if not may_translate(path):
        kind = task_in_folder(path)
        raise InputError(f"{path} holds a model of the task {kind.name!r}, no translator; use: {kind.asks}")
    return load(path, device, **how)


def may_translate(path: str | Path) -> bool:
    """Whether a folder holds a translator, by its config.json; what is no folder is told when it is opened."""
    if not Path(path).is_dir() or task_named(folder.read_config(Path(path))) == TRANSLATES:
        return True
    return task_in_folder(path).opens is Translator


def has_bleu(path: Path) -> bool:
    """Whether BLEU is what a model is measured by."""
    return task_named(folder.read_config(path)) == TRANSLATES or "bleu" in task_in_folder(path).figures


def check_asked(path: Path, command: str) -> None:
    """Refuse a folder whose task is not for this command; what is no folder is told when it is opened."""
    if not path.is_dir() or (
        (opener := OPENERS.get(task_named(folder.read_config(path)))) and opener.command == command
    ):
        return
    task = task_in_folder(path)
    if not task.asks.startswith(f"qkv {command} "):
        raise InputError(f"{path} holds a model of the task {task.name!r}; ask it by {task.asks} --model {path}")


def task_in(loaded: folder.Loaded, name: str | None = None) -> "Task":
    """The task of a trained model, or another that it can do as it is, with the settings that it remembers of its
    data."""
    from qkv.models import MODELS
    from qkv.tasks import TASKS

    architecture, _ = folder.origin(loaded.model)
    own = task_named(loaded.about)
    kind, model = known_task({"task": name or own}), MODELS[architecture]
    is_learned = kind.name in TASKS
    if kind.name != own if is_learned else not issubclass(model, kind.kinds):
        what = "train one for it" if is_learned else "give one with a backbone, such as a bert or a gpt2"
        raise InputError(f"a {architecture} of the task {own!r} cannot do the task {kind.name!r}; {what}")
    settings = kind.data_class.__dataclass_fields__
    known: Tree = {name: value for name, value in loaded.about.items() if name in settings}
    task = kind(kind.data_class(**known), model)
    for key, value in task.bounds(loaded.model.config).items():  # which others' folders do not tell
        loaded.about.setdefault(key, value)  # type: ignore[misc]
    return task


def score_files(
    path: str | Path, *files: str | Path, device: str = "cpu", by: str = "", part: str = "",
    beside: str | Path | None = None,
) -> Tree:  # fmt: skip
    """What a trained model, or two of them, are worth on files of examples: the figures of its task, or `by` another
    objective; or those of one part of a mixture."""
    from qkv.tasks import TASKS, Joint

    loaded = folder.load(Path(path), device_name(device))
    task: Task = task_in(loaded)
    if part:
        if not isinstance(task, Joint):
            raise InputError(f"{path} holds a model of the task {task.name!r}, which has no parts; leave --part out")
        loaded, task = task.part(loaded, part), task.tasks[part]
    if task.name not in TASKS:
        raise InputError(f"{path} is of the task {task.name!r}, which has no right answers to score; use: {task.asks}")
    if not files:
        raise InputError(f"no file was given; {task.name} reads {task.files}")
    examples = list(task.read([Path(file) for file in files]))
    if not examples:
        raise InputError(f"there is nothing to score: {', '.join(map(str, files))} has no examples; give at least one")
    if beside is None:
        by = by or task.scored_by(loaded)
        figures = task.evaluate(loaded, examples, **({"by": by} if by else {}))
    elif by:
        raise InputError(f"two models are averaged by their answers, and by={by!r} asks for a loss; leave it out")
    else:
        figures = load(path, device, beside=beside).score(examples)
    return {"task": task.name, "examples": len(examples), **figures}


def task_in_folder(path: str | Path) -> "type[Task]":
    """The task that a model folder was trained for."""
    return known_task(folder.read_config(Path(path)))


def task_named(about: Mapping[str, Any]) -> str:
    """The task that a folder names; the first folders named none."""
    return str(about.get("task", TRANSLATES))


def known_task(about: Mapping[str, Any]) -> "type[Task]":
    """The same, if there is such a task."""
    from qkv.tasks import USES

    name = task_named(about)
    if name not in USES:
        raise InputError(f"the model is of a task {name!r}, which this qkv does not have; {nearest(name, USES)}")
    return USES[name]
