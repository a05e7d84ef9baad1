"""From files to a corpus: read once, settings that nobody asked for chosen, sub-words learned, all encoded."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from qkv import folder
from qkv.config import Tree, from_tree, merge, to_tree
from qkv.data import Place, generator
from qkv.device import choose_device
from qkv.errors import InputError
from qkv.folder import About, Loaded
from qkv.models import Model
from qkv.objectives import objective
from qkv.tasks import Corpus, Survey, Task
from qkv.tasks.corpus import PARTS, Part
from qkv.text.tokenizer import BOS, PAD, UNK, Tokenizer
from qkv.training.display import Display
from qkv.training.settings import Settings, TrainingConfig, architecture, complete, paths, spelled_out, task_of

FITTED = ("vocab_size", "n_classes", "sentence_ends")  # settings of a model that follow from its data


def task(tree: Tree, where: str) -> Task:
    """The task of some settings, with those of its data."""
    kind = task_of(tree, where)
    data = from_tree(kind.data_class, merge(kind.defaults, tree).get("data", {}), where, "data.")
    made = kind(data, architecture(tree, where))
    made.start = tree.get("model", {}) if tree.get("start") else {}
    return made


def started(asked: Tree, where: str) -> tuple[Tree, Loaded | None]:
    """With --start: the model to begin with; and its architecture and sizes, unless others are asked for."""
    if not asked.get("start"):
        return asked, None
    start, kind = folder.load(paths([asked["start"]])[0]), task_of(asked, where)
    held, config = folder.origin(start.model)
    alike = [name for name, model in kind.models().items() if model.config_class is type(config)]
    holds = f"{asked['start']} holds a {held} model"
    if not alike:
        known = ", ".join(kind.models())
        raise InputError(f"{holds}, which cannot learn the task {kind.name!r}; start from one of these: {known}")
    name = asked.get("architecture") or (held if held in alike else alike[0])
    if name not in alike:
        raise InputError(f"{holds}, and {name} was asked for; leave --architecture out")
    if asked.get("data", {}).get("tokenizer"):
        cure = "leave it out, or add some with --data.grow"
        raise InputError(f"{asked['start']} has sub-words of its own, so data.tokenizer cannot be another; {cure}")
    sizes = {key: value for key, value in to_tree(config).items() if key not in FITTED}
    if "silent" in sizes:  # what the data may ask for is learned now
        sizes["silent"] = [number for number in sizes["silent"] if number in (PAD, BOS, UNK)]
    model = merge(sizes, spelled_out({**asked, "architecture": name}, where))
    return {**asked, "architecture": name, "model": model}, start


def read(asked: Tree, memory: Mapping[str, Part], place: Path, display: Display, where: str) -> Survey:
    """Read and examine all files of a run, and say what was found."""
    reader = task(asked, where)
    parts = {name: memory[name] if name in memory else paths(asked.get(name, [])) for name in PARTS}
    with display.counting("reading", None, reader.unit) as tick:
        survey = Survey(reader, parts, place, tick)
    found, valid = survey.found["train"], survey.found["valid"]
    display.say(f"{found.read:,} {reader.unit} read, {found.kept:,} kept")
    for line in (*found.findings, *(f"validation: {line}" for line in valid.findings)):
        display.say(f"  {line}")
    return survey


def chosen(asked: Tree, survey: Survey, where: str) -> Tree:
    """What a person asks for, laid over what suits the corpus and the machine, laid over the task's defaults."""
    kind, model = type(survey.task), architecture(asked, where)
    training = from_tree(TrainingConfig, merge(kind.defaults, asked).get("training", {}), where, "training.")
    suited = survey.task.choose(survey, choose_device(training.device), training)
    known = ["preset", *(field.name for field in fields(model.config_class))]
    suited["model"] = {key: value for key, value in suited.get("model", {}).items() if key in known}
    return merge({"task": kind.name}, kind.defaults, suited, asked)


def fitted(task: Task, tree: Tree, tokenizer: Tokenizer, facts: About, where: str) -> Settings:
    """The whole settings, with those of the model that follow from the data: a person may leave them out."""
    asked = spelled_out(tree, where)
    fitting = task.fitting(asked, tokenizer, facts)
    for key, value in fitting.items():
        if asked.get(key, value) != value:
            raise InputError(f"model.{key} is {asked[key]!r}, but the data asks for {value!r}; leave it out")
    return complete(merge(tree, {"model": fitting}), where)


def write(place: Path, task: Task, survey: Survey, tokenizer: Tokenizer, facts: About, display: Display) -> Corpus:
    """Encode everything, and say what was left out."""
    with display.counting("encoding", len(survey.train), task.unit) as tick:
        corpus = Corpus.write(place, task, survey, tokenizer, facts, tick)
    for which, written in (("", corpus.train.written), ("validation: ", corpus.valid.written)):
        if written.duplicates:
            display.say(f"  {which}{written.duplicates:,} {task.unit} repeated another one exactly: dropped")
        if written.too_long:
            display.say(f"  {which}{written.too_long:,} {task.unit} had over {task.longest[0] - 1} tokens: dropped")
    for line in task.remarks():
        display.say(f"  {line}")
    return corpus


def check_asked(task: Task, corpus: Corpus, model: Model, settings: Settings) -> None:
    """Refuse rows that give no batch, and an objective that cannot be made of them or that this model does not take."""
    batches, _ = task.stream(corpus.train), task.validation(corpus.valid)
    batch, _ = next(batches.stream())
    try:
        question = objective(settings.objective).knowing(corpus.tokenizer, model.inputs())
        task.check(corpus.train, question)
        asked = question.prepare(batch, generator(0, Place()))
        fits = asked.inputs.keys() <= model.inputs()
    except (TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        fits = False
    if not fits:
        raise InputError(
            f"the objective {settings.objective} cannot be asked of a {settings.architecture} model by the task "
            f"{settings.task!r}; leave --objective out, or give another"
        )
