"""The settings of one training run: what recipes, flags and the run folder hold."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from qkv.config import Tree, build, check_keys, check_types, from_tree, merge, parse_call, read_toml, setting, to_call
from qkv.contents import recipes
from qkv.errors import InputError, nearest
from qkv.models import Model
from qkv.objectives import OBJECTIVES, in_full, objective
from qkv.objectives.together import alternatives
from qkv.tasks import TASKS, Task
from qkv.text import PAIRS, suffix
from qkv.training.averaging import AVERAGES
from qkv.training.groups import Group, Optimizer
from qkv.training.schedules import SCHEDULES

SIDES = ("source", "target")
IDLE = ("threads", "keep", "checkpoint_minutes", "checkpoint_steps", "shard")  # what changes no figure but speed
STAGED = ("stages", "every_stage", "sets")  # of a comparison's recipe: what is trained before its rows, and on what
LIMITS = ("steps", "epochs", "minutes", "patience")
NOT_NEGATIVE = (*LIMITS, "validate_every", "bleu_sentences", "checkpoint_minutes", "checkpoint_steps", "threads",
                "clip", "weight_decay", "epsilon", "accumulator", "unfreeze")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How weights are learned, and when to stop."""

    optimizer: Optimizer = setting(
        "adamw",
        "adam, adamw (its weight decay is apart from the gradient), muon (matrices move by orthogonal steps), adamax, "
        "adagrad, asgd, or sgd (with beta1 as its momentum)",
    )
    learning_rate: float = setting(1e-3, "the highest learning rate, multiplied by the schedule")
    schedule: str = setting("inverse_square_root", "any name that `qkv list schedules` prints, e.g. cosine(warmup=400)")
    beta1: float = setting(0.9, "Adam's memory of the gradient")
    beta2: float = setting(0.98, "Adam's memory of its square")
    epsilon: float = setting(1e-9, "Adam's guard against division by zero")
    bias_correction: bool = setting(True, "of adam and adamw: early averages made larger; BERT's authors do without it")
    accumulator: float = setting(0.0, "Adagrad's sum of squares before the first step; 1 in ELMo")
    weight_decay: float = setting(0.0, "weight decay")
    decay: Literal["matrices", "all"] = setting("matrices", "what decays: matrices, or norms and biases too")
    groups: list[str] = setting(
        [], "optimisers for parts of the model: 'heads: adam(rate=5e-4)', 'backbone: asgd(rate=0.01, after=1)'"
    )
    freeze: str = setting("", "parameters that stay as they are, by the beginnings of their names: backbone, tokens")
    layer_decay: float = setting(1.0, "each layer's learning rate as a part of that of the layer above it")
    unfreeze: float = setting(0.0, "the top layer learns first, and after so many epochs always one more; 0 for all")
    clip: float = setting(1.0, "longest gradient; 0 for no limit")
    accumulate: int = setting(1, "batches for one step of the optimiser")
    average: str = setting("running", "weights that are validated and kept: running(decay=..), last(n=5) or none")
    best_by: str = setting("loss", "the validation figure that decides which weights are kept: loss, bleu, accuracy")
    patience: int = setting(10, "stop after this many validations without a better one; 0 for never")
    steps: int = setting(0, "stop after this many steps; 0 for no limit")
    epochs: float = setting(0.0, "stop after this many passes over the data; 0 for no limit")
    minutes: float = setting(0.0, "stop after this much training time; 0 for no limit")
    validate_every: int = setting(0, "steps between validations; 0 for once an epoch")
    bleu_sentences: int = setting(200, "validation sentences that are translated to measure BLEU; 0 for none")
    checkpoint_minutes: float = setting(2.0, "time between checkpoints; one is also written at each validation")
    checkpoint_steps: int = setting(0, "steps between checkpoints, beside those by time; 0 for none")
    keep: int = setting(3, "checkpoints to keep")
    device: str = setting("auto", "auto, cpu, cuda, mps")
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "auto takes bfloat16 where the device computes in it"
    )
    recompute: bool = setting(False, "compute each block twice to keep less of it: less memory, a third more time")
    shard: bool = setting(
        False, "each rank keeps only its share of weights and optimiser: for models above some 2 B parameters"
    )
    threads: int = setting(0, "CPU threads; 0 for torch's own choice: OMP_NUM_THREADS, or one for each core")

    def __post_init__(self) -> None:
        for name in NOT_NEGATIVE:
            if not getattr(self, name) >= 0:  # so that nan is refused too
                raise ValueError(f"{name} cannot be negative, but it is {getattr(self, name)}")
        if self.accumulate < 1 or self.keep < 1:
            raise ValueError("accumulate and keep must be at least 1")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, not {self.learning_rate}")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay must be above 0 and at most 1, not {self.layer_decay}")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError(f"beta1 and beta2 must be at least 0 and below 1, not {self.beta1} and {self.beta2}")
        if not self.bias_correction and self.optimizer not in ("adam", "adamw"):
            raise ValueError(f"bias_correction = false is for adam and adamw, and the optimizer is {self.optimizer}")
        if self.best_by == "bleu" and not self.bleu_sentences:
            raise ValueError("best_by is bleu, but bleu_sentences is 0, so that BLEU is never measured; raise it")
        if self.shard and (self.optimizer not in ("adam", "adamw") or self.groups or self.unfreeze):
            raise ValueError("shard goes with adam and adamw, of one group, and without unfreeze; leave it or them out")
        if self.groups and self.unfreeze:
            raise ValueError("groups say by `after` when each begins to learn; leave unfreeze out")
        for text in self.groups:
            Group.read(text)
        build(SCHEDULES, self.schedule)
        build(AVERAGES, self.average)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run of any task, whole. What is not given is chosen by the task, for the corpus and the machine."""

    published: str = ""  # the published figure that a recipe is measured against
    task: str
    train: list[str] = field(default_factory=list)
    valid: list[str] = field(default_factory=list)
    test: list[str] = field(default_factory=list)
    corpus: str = ""  # a folder of rows that is already prepared, in place of one of the run's own
    start: str = ""  # the model folder whose weights a run begins with
    architecture: str
    objective: str  # a text such as "classes(label_smoothing=0.1) + 0.5 * causal_lm"
    measured_by: str = ""  # the objective by which a comparison measures all rows; "" for the task's own
    data: Any = None  # settings of the task's own class
    model: Any = None  # settings of the architecture's own class
    training: TrainingConfig = field(default_factory=TrainingConfig)


def task_of(tree: Mapping[str, Any], where: str = "settings") -> type[Task]:
    name = str(tree.get("task") or next(iter(TASKS)))
    if name not in TASKS:
        raise InputError(f"{where}: unknown task {name!r}; {nearest(name, TASKS)}")
    return TASKS[name]


def task_for(files: Sequence[Path], asked: Mapping[str, Any]) -> tuple[str, str]:
    """The task that some files are for, where nobody says it; and a sentence, unless it is the usual one.

    Files of pairs are translated, and so are two plain files whose names end differently (train.en, train.de), or any
    for which languages are given. Other plain files are running text.
    """
    plain = [path for path in files if suffix(path) not in PAIRS]
    languages = {**asked, **asked.get("data", {})}
    are_pair = len(plain) == 2 and suffix(plain[0]) != suffix(plain[1])
    if not plain or are_pair or any(map(languages.get, SIDES)):
        return "translate", ""
    count = "a plain text file" if len(plain) == 1 else f"{len(plain)} plain text files"
    return "language_model", (
        f"{count}: this trains a language model (GPT-2's form); for a translator give two files and --from and --to, "
        "for anything else --task"
    )


def architecture(tree: Mapping[str, Any], where: str = "settings") -> type[Model]:
    """The model that is asked for, if it can learn the task."""
    task = task_of(tree, where)
    models = task.models()
    name = str(tree.get("architecture") or task.architecture)
    if name not in models:
        raise InputError(f"{where}: {name!r} is no model of the task {task.name!r}; {nearest(name, models)}")
    return models[name]


def modern(tree: Mapping[str, Any], where: str = "settings", objective: str = "") -> Tree:
    """Settings by their present names: what an earlier version called otherwise is taken, and said.

    A table of options of the objective is laid over the text `objective`, or over the task's own.
    """
    tree = dict(tree)
    for section in ("data", "model", "training"):
        if not isinstance(tree.get(section, {}), Mapping):
            raise InputError(f"{where}: {section} is {tree[section]!r}; it must be a table of settings")
    if languages := {name: tree.pop(name) for name in SIDES if name in tree}:  # short for data.source
        tree["data"] = {**languages, **tree.get("data", {})}
    if old := tree.pop("objective_name", ""):
        tree.setdefault("objective", old)
    if isinstance(tree.get("objective"), Mapping):
        asked = dict(tree["objective"])
        if "agreement" in asked:
            print(f"{where}: objective.agreement is called objective.r_drop now", file=sys.stderr)
            asked["r_drop"] = asked.pop("agreement")
        before = objective or old or task_of(tree, where).asked_of(architecture(tree, where))
        if sum(len(terms) for _, terms in alternatives(before)) > 1:
            raise InputError(f"{where}: the objective is made of several, {before}; give its options in that text")
        name, options = parse_call(before, OBJECTIVES)
        tree["objective"] = to_call(name, {**options, **asked})
    return tree


def check(tree: Mapping[str, Any], where: str) -> Tree:
    """The settings by their present names. An unknown key, a value of a wrong type, and what is no list of files, is
    refused before any data is read."""
    tree = modern(tree, where)
    task, model = task_of(tree, where), architecture(tree, where)
    sections = {"data": task.data_class, "model": model.config_class}
    check_keys(Settings, {key: value for key, value in tree.items() if key not in sections}, where, also=SIDES)
    files: Tree = {name: tree[name] for name in ("train", "valid", "test") if name in tree}
    from_tree(Settings, {"task": task.name, "architecture": "", "objective": "", **files}, where)
    for kind, section, given in (
        (task.data_class, "data", tree.get("data", {})),
        (model.config_class, "model", spelled_out(tree, where)),
        (TrainingConfig, "training", tree.get("training", {})),
    ):
        check_keys(kind, given, where, f"{section}.")
        check_types(kind, given, where, f"{section}.")
    if not isinstance(spec := tree.get("objective", task.asked_of(model)), str):
        raise InputError(f'{where}: objective is {spec!r}; name one, such as "translation(label_smoothing=0.1)"')
    try:
        objective(spec)
    except InputError as error:
        raise InputError(f"{where}: objective: {error}") from None
    return tree


def complete(tree: Mapping[str, Any], where: str) -> Settings:
    """Settings from plain data; `model.preset` names the sizes that other keys of [model] change."""
    tree = check(tree, where)
    task, model = task_of(tree, where), architecture(tree, where)
    own = {"task": task.name, "architecture": task.architecture, "objective": task.asked_of(model)}
    tree = merge(own, task.defaults, tree)
    parts = {
        "data": from_tree(task.data_class, tree.get("data", {}), where, "data."),
        "model": from_tree(model.config_class, spelled_out(tree, where), where, "model."),
    }
    made = task(parts["data"], model)
    asked = made.asking(tree["objective"])
    parts["data"] = made.settle(parts["model"], objective(asked))
    rest = {key: value for key, value in tree.items() if key not in parts}
    settings = replace(from_tree(Settings, rest, where), **parts, objective=in_full(asked))
    by = settings.training.best_by
    if by not in task.figures:
        known = " and ".join(task.figures)
        raise InputError(f"{where}: training.best_by is {by}, but {task.name} is measured by {known}; give one of them")
    return settings


def spelled_out(tree: Mapping[str, Any], where: str) -> Tree:
    """The keys of [model], with those of its preset."""
    model, presets = dict(tree.get("model", {})), architecture(tree, where).presets
    if "preset" not in model:
        return model
    preset = model.pop("preset")
    if not isinstance(preset, str) or preset not in presets:
        raise InputError(f"{where}: unknown preset {preset!r}; {nearest(str(preset), presets)}")
    return {**presets[preset], **model}


def asked_for(recipe: str | Path | None, given: Tree) -> Tree:
    """What a person asks for: the recipe's settings, and laid over them what is given beside it."""
    written = read_settings(recipe) if recipe else {}
    for name in ("vary", *STAGED):  # the rows of a comparison are not of one run
        written.pop(name, None)
    if isinstance(given.get("objective"), Mapping) and isinstance(written.get("objective"), str):
        given = modern({**written, **given}, str(recipe), written["objective"])
    return merge(written, given)


def read_settings(recipe: str | Path) -> Tree:
    """What a recipe says: a file, or one that comes with qkv, by its name. A key that is none of ours is refused."""
    path = Path(recipe)
    if not path.is_file():
        known = recipes()
        if str(recipe) not in known:
            hint = nearest(str(recipe), known)
            raise InputError(f"no recipe {str(recipe)!r}, neither a file nor one that comes with qkv; {hint}")
        path = known[str(recipe)][0]
    tree = read_toml(path)
    tree.pop("files", None)  # the digests in an older run's own recipe.toml are of that run, not settings
    check_keys(Settings, dict.fromkeys(tree), str(recipe), also=(*SIDES, *STAGED, "objective_name", "vary"))
    return tree


def paths(names: list[str]) -> list[Path]:
    """Names from a recipe as paths; $QKV_DATA is the folder of that variable, or ../shared/data."""
    data = os.environ.get("QKV_DATA", "../shared/data")
    found = [Path(name.replace("$QKV_DATA", data)).expanduser() for name in names]
    for path in found:
        if path.exists() and not path.is_file() and not path.is_dir():  # of a folder, its reader says more
            raise InputError(
                f"{path} is a pipe or a device, and training reads its files more than once; write it to a file first"
            )
    return found
