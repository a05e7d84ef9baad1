"""From files to a corpus: read once, settings that nobody asked for chosen, sub-words learned, all encoded."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from qkv import folder
from qkv.bundled import located
from qkv.config import Tree, from_tree, merge, to_tree
from qkv.data import Place, generator
from qkv.device import choose_device
from qkv.display import Display
from qkv.errors import InputError
from qkv.folder import About, Loaded
from qkv.models import Model
from qkv.objectives import objective
from qkv.tasks import Corpus, Survey, Task
from qkv.tasks.corpus import PARTS, Part, learn_tokenizer
from qkv.text.tokenizer import BOS, PAD, UNK, Tokenizer
from qkv.training.settings import Settings, TrainingConfig, architecture, complete, paths, spelled_out, task_of
from qkv.wording import count_of

FITTED = ("vocab_size", "n_classes", "sentence_ends", "mask_id")  # settings of a model that follow from its data


def task(tree: Tree, where: str) -> Task:
    """The task of some settings, with those of its data."""
    kind = task_of(tree, where)
    data = from_tree(kind.data_class, merge(kind.defaults, tree).get("data", {}), where, "data.")
    made = kind(data, architecture(tree, where))
    made.start = tree.get("model", {}) if tree.get("start") else {}
    return made


def opened(start: str) -> list[Loaded]:
    """What a run begins with: a folder, or several, "bert + entities"; or a translator that comes with qkv."""
    return [folder.load(located(one)) for one in paths([name.strip() for name in start.split(" + ")])] if start else []


def started(asked: Tree, where: str) -> tuple[Tree, list[Loaded]]:
    """With --start: the models to begin with; and the architecture and the sizes of the first, unless others are asked
    for. Those behind it lend what it does not have."""
    starts, kind = opened(asked.get("start", "")), task_of(asked, where)
    if not starts:
        return asked, []
    start, *others = starts
    held, config = folder.origin(start.model)
    alike = {name: model.config_class for name, model in kind.models().items() if grows_from(model, type(config))}
    holds = f"{start.folder} holds a {held} model"
    if not alike:
        known = ", ".join(kind.models())
        raise InputError(f"{holds}, which cannot learn the task {kind.name!r}; start from one of these: {known}")
    name = asked.get("architecture") or (held if held in alike else next(iter(alike)))
    if name not in alike:
        raise InputError(f"{holds}, and {name} was asked for; leave --architecture out")
    if asked.get("data", {}).get("tokenizer") and start.model.reads_text:
        cure = "leave it out, or add some with --data.grow"
        raise InputError(f"{start.folder} has sub-words of its own, so data.tokenizer cannot be another; {cure}")
    asked = going_along(asked, start)
    sizes: Tree = {}
    for other in reversed(others):
        held, lent = folder.origin(other.model)
        if not grows_from(kind.models()[name], type(lent)):
            raise InputError(f"{other.folder} holds a {held} model, with which no {name} begins; leave it out")
        sizes |= in_common(lent, alike[name])
    sizes |= in_common(config, alike[name])
    if "silent" in sizes:  # what the data may ask for is learned now
        sizes["silent"] = [number for number in sizes["silent"] if number in (PAD, BOS, UNK)]
    model = merge(sizes, spelled_out({**asked, "architecture": name}, where))
    return {**asked, "architecture": name, "model": model}, starts


def in_common(config: Any, kind: type[Any]) -> Tree:
    """The settings of a model to begin with that one of the settings `kind` takes over."""
    own = FITTED if kind is type(config) else (*FITTED, *vars(kind)["__annotations__"])
    shared = {field.name for field in fields(kind)} - {*own}
    return {key: value for key, value in to_tree(config).items() if key in shared}


def words_of(starts: list[Loaded]) -> Tokenizer | None:
    """The sub-words of the models to begin with, if one of them reads texts by them."""
    return next((start.tokenizer for start in starts if start.model.reads_text), None)


def grows_from(model: type[Model], settings: type[Any]) -> bool:
    """Whether a model can begin with the weights of one with such settings: of its own kind, or of the one that its
    paper begins with; then what its settings say anew is its own."""
    return model.config_class is settings or settings in model.begins_with


def going_along(asked: Tree, start: Loaded) -> Tree:
    """What is asked for, of a model that reads texts from their end, or from their beginning."""
    backward, data = bool(start.about.get("backward")), asked.get("data", {})
    kind = task_of(asked, str(asked["start"]))
    if backward and "backward" not in kind.data_class.__dataclass_fields__:
        raise InputError(f"{asked['start']} reads texts from their end, which the task {kind.name!r} cannot")
    if data.get("backward", backward) != backward:
        way = "from their end" if backward else "from their beginning"
        raise InputError(f"{asked['start']} reads texts {way}, and data.backward asks for the other way; leave it out")
    return merge(asked, {"data": {"backward": True}}) if backward else asked


def read(asked: Tree, memory: Mapping[str, Part], place: Path, display: Display, where: str) -> Survey:
    """Read and examine all files of a run, and say what was found."""
    reader = task(asked, where)
    parts = {name: memory[name] if name in memory else paths(asked.get(name, [])) for name in PARTS}
    with display.counting("reading", None, reader.unit) as tick:
        survey = Survey(reader, parts, place, tick)
    found, valid = survey.found["train"], survey.found["valid"]
    display.say(f"{count_of(found.read, reader.unit)} read, {found.kept:,} kept")
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


def shared_out(tree: Tree, asked: Tree, ranks: int, display: Display, where: str) -> Tree:
    """A batch for each rank in each step, together as large as the one of one process; unless a person has asked for
    either, who decides."""
    if ranks == 1 or "accumulate" in asked.get("training", {}) or "batch_tokens" in asked.get("data", {}):
        return tree
    data: Any = task(tree, where).data
    own = max(1, data.batch_tokens // ranks)
    display.say(f"the {data.batch_tokens:,} tokens of a step are shared out: {own:,} for each of {ranks} ranks")
    return merge(tree, {"training": {"accumulate": ranks}, "data": {"batch_tokens": own}})


def learned(task: Task, survey: Survey, known: Tokenizer | None, display: Display) -> Tokenizer:
    """The sub-words, and from how much they are learned if that is not everything."""
    if known is None and not task.data.tokenizer.endswith(".json") and len(survey.sample) < len(survey.train):
        of = f"{len(survey.sample):,} of {len(survey.train):,} {task.unit}"
        display.say(f"sub-words are learned from {of}, drawn from all of them")
    return learn_tokenizer(task.data, survey.sample, known, task.named_tokens())


def fitted(task: Task, tree: Tree, tokenizer: Tokenizer, facts: About, where: str) -> Settings:
    """The whole settings, with those of the model that follow from the data: a person may leave them out."""
    asked = spelled_out(tree, where)
    fitting = {**task.model.fitting(tokenizer), **task.fitting(asked, tokenizer, facts)}
    for key, value in fitting.items():
        if asked.get(key, value) != value:
            raise InputError(f"model.{key} is {asked[key]!r}, but the data asks for {value!r}; leave it out")
    return complete(merge(tree, {"model": fitting}), where)


def drawn(task: Task, settings: Settings, facts: About, tokenizer: Tokenizer) -> tuple[Model, dict[str, str]]:
    """The model with its first weights, which the seed draws; and its heads."""
    torch.manual_seed(settings.data.seed)
    heads = {**objective(settings.objective).knowing(tokenizer).heads, **task.heads(facts)}
    model = task.build(settings.model, heads)
    model.know(tokenizer)
    return model, heads


def write(
    place: Path, task: Task, survey: Survey, tokenizer: Tokenizer, facts: About, display: Display, workers: int = 1
) -> Corpus:
    """Encode everything, and say what was left out."""
    with display.counting("encoding", len(survey.train), task.unit) as tick:
        corpus = Corpus.write(place, task, survey, tokenizer, facts, tick, workers)
    for which, written in (("", corpus.train.written), ("validation: ", corpus.valid.written)):
        if written.duplicates:
            display.say(f"  {which}{count_of(written.duplicates, task.unit)} repeated another one exactly: dropped")
        if written.too_long:
            display.say(f"  {which}{count_of(written.too_long, task.unit)} {task.too_long()}: dropped")
    for line in task.remarks():
        display.say(f"  {line}")
    return corpus


def check_asked(task: Task, corpus: Corpus, model: Model, settings: Settings) -> None:
    """Refuse rows that give no batch, and an objective that cannot be made of them or that this model does not take."""
    batches, _ = task.stream(corpus.train), task.validation(corpus.valid)
    batch, _ = next(batches.stream())
    try:
        question = objective(settings.objective).knowing(corpus.tokenizer, model.inputs()).with_model(model)
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
