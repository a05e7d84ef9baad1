"""A whole training run of any task, from files to a model folder: what `qkv train` and `qkv.train` do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

import tomli_w
import torch

from qkv import folder, manifest
from qkv.config import Tree, to_tree
from qkv.data import each_row
from qkv.display import Display
from qkv.engines import forming
from qkv.errors import InputError
from qkv.files import alone, remove, write_json, write_text
from qkv.folder import About, Loaded, RunFolder
from qkv.models import MODELS, Model
from qkv.objectives import first, in_full, leads, objective
from qkv.tasks import TASKS, Corpus, Task
from qkv.tasks.corpus import Part, are_files
from qkv.text.tokenizer import Tokenizer
from qkv.training import budget, checkpoint, going_on, prepare
from qkv.training.given import AlsoGiven, Section, check_call, sorted_out, with_limits
from qkv.training.groups import Group, parted
from qkv.training.optimizers import freeze
from qkv.training.pace import of_validation
from qkv.training.ranks import ALONE, Ranks, joined
from qkv.training.settings import Settings, asked_for, check, modern, paths, task_for, task_of
from qkv.training.telling import OnEvent, Teller
from qkv.training.trainer import Hooks, Trainer

NEW = ".corpus.part"  # where a corpus waits until nothing can be wrong with it
ASIDE = ".training.old.part"  # where an old run goes while it is removed
LEFT = (".*.json.*.part", ".*.safetensors.*.part", ASIDE, f"{NEW}*", f".{NEW}*", "training/.*.part",
        "training/data/.*.part")  # fmt: skip  # half-written, or half-removed, by a run that was killed
HEADER = "# The complete settings of this run; `qkv train --recipe` takes this file.\n"


@dataclass(frozen=True)
class Trained:
    """What a run came to.

    >>> trained = qkv.train("pairs.tmx", source="en", target="de", minutes=30)
    >>> print(trained.stopped, trained.best["bleu"])
    >>> qkv.load(trained.out).translate("Two dogs.")
    """

    out: Path
    stopped: str  # why
    steps: int
    epochs: float
    minutes: float
    best: dict[str, float]  # the figures of the validation whose weights are kept


def train(
    *files: str | Path, task: str = "", source: str = "", target: str = "", start: str | Path | None = None,
    out: str | Path = "model", valid: Sequence[str | Path] | Iterable[Any] = (), test: Sequence[str | Path] = (),
    recipe: str | Path | None = None, minutes: float | None = None, epochs: float | None = None,
    steps: int | None = None, architecture: str = "", objective: str | Section = "", data: Section | None = None,
    model: Section | None = None, training: Section | None = None, on_event: OnEvent | None = None,
    restart: bool = False, quiet: bool = False, workers: int = 1, **given: Unpack[AlsoGiven],
) -> Trained:  # fmt: skip
    """Train a model of a task on files, or on examples in memory; the same call again goes on where it stopped.

    >>> qkv.train("pairs.tmx", source="en", target="de", out="model", minutes=30, model={"d_model": 256})
    >>> qkv.train(pairs=[("Two dogs.", "Zwei Hunde."), ...], out="model")
    >>> qkv.train(labelled=frame, valid=held_out, start="lm", out="critic")  # a DataFrame, or a Hugging Face dataset

    Examples have the name of their shape (pairs, texts, labelled ..). `data`, `model`, `objective` and `training` are
    sections of a recipe. `on_event` sees each record of the log as it is made, every step, every validation: {"event":
    "train", "step": 7, "loss": 5.1, ..}; if it returns True, the run ends there, validated and saved as by a limit.
    `workers` is the number of processes that encode a large corpus.
    """
    check_call(out, on_event, workers)
    own: Tree = {"source": source, "target": target, "architecture": architecture, "objective": objective, "data": data}
    own |= {"model": model, "training": with_limits(training, minutes=minutes, epochs=epochs, steps=steps)}
    own |= {"start": str(start) if start else ""}
    settings, memory = sorted_out(files, task, valid, test, dict(given))
    asked = asked_for(recipe, {**{name: value for name, value in own.items() if value}, **settings})
    where = str(recipe or "settings")
    with joined() as ranks, torch.random.fork_rng(devices=[]):
        display = Display(quiet or not ranks.is_first)
        begins = restart or not RunFolder(Path(out)).recipe.exists()
        if begins and "task" not in asked and are_files(asked.get("train"), str | Path):
            asked["task"], why = task_for(paths(asked["train"]), asked)
            display.say(why) if why else None
        with alone_in(Path(out)) if ranks.is_first else nullcontext():
            run = Run(
                Path(out), asked, display, restart=restart, where=where, memory=memory, ranks=ranks, workers=workers
            )
            return run.go(on_event)


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Only one run at a time writes to a folder."""
    check_out(out)
    taken = f"another qkv is training into {out}; wait for it, or give a new --out"
    with ExitStack() as stack:
        with checkpoint.explained(out):
            stack.enter_context(alone(out / "training.lock", taken))
        yield


def check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give --out the name of a new folder")


class Run:
    """The steps of a run in their order; state is in the folder, so that any step may be the last."""

    def __init__(
        self, out: Path, asked: Tree, display: Display, *, restart: bool, where: str, memory: Mapping[str, Part],
        ranks: Ranks = ALONE, workers: int = 1,
    ) -> None:  # fmt: skip
        self.out, self.asked, self.display, self.say, self.where = out, dict(asked), display, display.say, where
        self.folder, self.memory, self.ranks, self.workers = RunFolder(out), memory, ranks, workers
        self.starts: list[Loaded] = []  # the models to begin with
        if not ranks.is_first:
            return
        self.goes_on = self.folder.recipe.exists() and not restart
        if not self.folder.recipe.exists():
            if checkpoint.existing(self.folder.checkpoints):  # they would be taken for those of the new run
                raise InputError(
                    f"{self.folder.place} has checkpoints but no recipe.toml; remove it, or give a new --out"
                )
            if (out / "config.json").exists() and not restart:
                raise InputError(f"{out} already holds a model; give a new --out, or --restart to replace it")
        for left in chain.from_iterable(map(out.glob, LEFT)):
            remove(left)

    def go(self, on_event: OnEvent | None = None) -> Trained:
        settings, corpus, model = self.ready()
        task = TASKS[settings.task](settings.data, MODELS[settings.architecture])
        about = task.about(corpus)
        if settings.objective != in_full(task.objective):
            about["objective"] = settings.objective
        loaded = Loaded(model, corpus.tokenizer, about)
        asked = objective(settings.objective).knowing(corpus.tokenizer, model.inputs()).with_model(model)
        batches = task.stream(corpus.train)
        shares = settings.training.shard
        task.shared_among(ALONE if shares else self.ranks)  # with a share of the weights nobody can answer alone
        valid, judge = task.validation(corpus.valid), task.judge(loaded, corpus, settings.training)
        teller = Teller(self.display, self.folder, task, settings, on_event)
        hooks = Hooks(
            lambda model: task.summed_up({**task.measure(model, asked, valid), **judge()}),
            lambda weights, path: folder.save(path, model, corpus.tokenizer, loaded.about, weights),
            teller.event if self.ranks.is_first else lambda event: None,
            self.out,
        )
        trainer = Trainer(model, asked, batches, settings.training, hooks, settings.data.seed, self.ranks)
        went_on, best = trainer.resume(), dict[str, float]()
        pace = trainer.probe() if self.ranks.is_first or shares else 0.0
        with checkpoint.explained(self.out):
            if self.ranks.is_first:
                validation = of_validation(trainer, task, loaded, corpus, pace)
                teller.announce(trainer, task.counted(corpus), went_on, pace, validation)
                with teller.listening():
                    stopped = trainer.run()
                teller.summary(stopped)
                best = teller.log.best
                self.keep_form(corpus, stopped)
            else:
                stopped = trainer.run()
        now = trainer.now
        return Trained(self.out, stopped, now.step, trainer.epoch(), now.seconds / 60, best)

    def keep_form(self, corpus: Corpus, stopped: str) -> None:
        """The best weights as our own engine reads them, so that commands need no torch. The run is over and saved:
        whatever goes wrong here is told, and no more."""
        if stopped == "interrupted":  # it goes on from here, to other weights
            return
        try:
            loaded = folder.load(self.out)
            if forming.has_form(loaded.model):
                self.say(forming.keep_form(loaded, (row[0] for row in each_row(corpus.valid))))
        except (InputError, OSError, RuntimeError, ValueError, IndexError, TypeError) as error:
            self.say(f"the engine's form of the model was not made: {error}")

    def ready(self) -> tuple[Settings, Corpus, Model]:
        """Settings, data and the first weights; the first rank makes what the others then open."""
        if self.ranks.is_first:
            found, refusal = self.resumed() if self.goes_on else self.prepared(), ""
            self.ranks.wait()
        else:
            self.ranks.wait()
            try:
                found, refusal = self.resumed(), ""
            except InputError as error:
                refusal = str(error)
        self.ranks.refuse_if_any(refusal)
        seen = repr((going_on.alike(found[0]), sorted(found[1].digests.items()))).encode()
        self.ranks.check_alike("the run's settings and data are", blake2b(seen).hexdigest())
        return found

    # -- a new run -----------------------------------------------------------------------------------------------

    def prepared(self) -> tuple[Settings, Corpus, Model]:
        """Take or make a corpus, clear an old run away, and write down the settings: from now on the run goes on."""
        asked = modern(self.asked, self.where)
        if not asked.get("train") and not self.memory and not asked.get("corpus"):
            kind = task_of(asked, self.where)
            raise InputError(f"no file was given; {kind.name} learns from {kind.files}")
        asked, self.starts = prepare.started(asked, self.where)
        check(asked, self.where)
        task, settings, corpus, model = self.opened(asked) if asked.get("corpus") else self.encoded(asked)
        with checkpoint.explained(self.out):
            if self.folder.recipe.exists():  # a folder of that name that no run made is left alone
                remove(self.folder.place.rename(self.out / ASIDE))
            if corpus.folder == self.out / NEW:
                self.folder.place.mkdir(exist_ok=True)
                remove(self.folder.corpus)
                corpus = Corpus.open(corpus.folder.rename(self.folder.corpus))
        is_own = leads(first(task.asked_of(task.model)), settings.objective)  # what baselines answer
        if is_own and (baselines := task.baselines(corpus)):
            write_json(self.folder.baselines, baselines)
        with checkpoint.explained(self.out):
            write_text(self.folder.recipe, HEADER + tomli_w.dumps(to_tree(settings)))
            kept = (self.folder.recipe, self.folder.baselines)
            manifest.seal(self.folder.place, [path.name for path in kept if path.exists()])
        return settings, corpus, model

    def opened(self, asked: Tree) -> tuple[Task, Settings, Corpus, Model]:
        """A corpus that is already prepared."""
        corpus, task = Corpus.open(Path(asked["corpus"])), prepare.task(asked, self.where)
        settings = prepare.fitted(task, asked, corpus.tokenizer, corpus.facts, self.where)
        return task, settings, corpus, self.built(task, settings, corpus.facts, corpus.tokenizer)

    def encoded(self, asked: Tree) -> tuple[Task, Settings, Corpus, Model]:
        """Read, examine and encode the files; choose what was not given."""
        survey = prepare.read(asked, self.memory, self.out, self.display, self.where)
        tree = prepare.chosen(asked, survey, self.where)
        tree = prepare.shared_out(tree, asked, self.ranks.count, self.display, self.where)
        task = prepare.task(tree, self.where)
        tokenizer = prepare.learned(task, survey, prepare.words_of(self.starts), self.display)
        facts = task.facts(survey, tokenizer)
        settings = prepare.fitted(task, tree, tokenizer, facts, self.where)
        task.data = settings.data
        facts = task.bounded(facts, settings.model)
        model = self.built(task, settings, facts, tokenizer)
        with checkpoint.explained(self.out):
            corpus = prepare.write(self.out / NEW, task, survey, tokenizer, facts, self.display, self.workers)
            try:  # so that nothing is lost by what cannot be read or asked
                prepare.check_asked(task, corpus, model, settings)
                if budget.is_by_time(settings):
                    return self.in_time((task, settings, corpus, model), tree, asked)
            except InputError:
                remove(self.out / NEW)
                raise
        return task, settings, corpus, model

    def in_time(
        self, made: tuple[Task, Settings, Corpus, Model], tree: Tree, asked: Tree
    ) -> tuple[Task, Settings, Corpus, Model]:
        """The same with settings that suit the minutes that are given, by the pace that is measured."""
        task, before, corpus, model = made
        tokenizer, facts, out = corpus.tokenizer, corpus.facts, self.out

        def tried(some: Tree) -> budget.Tried:
            return budget.Tried(task, prepare.fitted(task, some, tokenizer, facts, self.where), corpus, out, self.ranks)

        plan = budget.planned(tree, asked, getattr(task, "rates", {}), tree["training"]["minutes"], tried)
        for sentence in plan.said:
            self.say(sentence)
        settings = prepare.fitted(task, plan.tree, tokenizer, facts, self.where)
        task.data = settings.data
        if settings.model != before.model:
            model = self.built(task, settings, facts, tokenizer)
        return task, settings, corpus, model

    def built(self, task: Task, settings: Settings, facts: About, tokenizer: Tokenizer) -> Model:
        """The model with its first weights; what cannot be built is refused before anything is written."""
        model, heads = prepare.drawn(task, settings, facts, tokenizer)
        freeze(model, settings.training.freeze)  # the trainer would refuse an unknown name too late,
        parted(model, [Group.read(text) for text in settings.training.groups])  # and a group of none
        taken, new = set[str](), list[str]()
        for start in reversed(self.starts):  # what several have is taken from the first
            own, new = folder.start_from(model, start, str(start.folder), task.anew(start, facts, heads))
            taken |= {*own}
        if self.starts:
            new = [name for name in new if name not in taken]
            fresh = f"new are {', '.join(new[:4])}{' ...' * (len(new) > 4)}" if new else "nothing is new"
            self.say(f"begins with the weights of {settings.start}: {len(taken)} of {len(taken) + len(new)}; {fresh}")
        return model

    # -- a run that goes on --------------------------------------------------------------------------------------

    def resumed(self) -> tuple[Settings, Corpus, Model]:
        settings, corpus = going_on.resumed(self.folder, self.asked, self.where)
        task = TASKS[settings.task](settings.data, MODELS[settings.architecture])
        if settings.start and not checkpoint.existing(self.folder.checkpoints):
            self.starts = prepare.opened(settings.start)
        return settings, corpus, self.built(task, settings, corpus.facts, corpus.tokenizer)
