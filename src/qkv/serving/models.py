"""The models that a server has loaded, and which one translates from a language to another."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from qkv.decoding import Translator
from qkv.decoding.searcher import Opened
from qkv.device import ENGINE, device_name
from qkv.engines import in_words, why
from qkv.errors import InputError, nearest
from qkv.folder import Loaded, look
from qkv.look.facts import View, looks, model_view
from qkv.opening import OPENERS, open_embedder, options, task_in, task_named
from qkv.serving.limits import Refusal
from qkv.serving.on_demand import OnDemand
from qkv.text.detection import UNKNOWN, find, name_of
from qkv.text.frames import FRAMES

VERBS = ("translate", "generate", "summarise", "predict", "fill", "embed")  # what models do, each at /api/VERB


class Holding(NamedTuple):
    """What is in memory of a model folder."""

    model: Any  # what `qkv.load` gives: a Translator, a Generator, a Classifier ...
    task: str
    uses: Mapping[str, Callable[[], Any]]  # what makes of it what else it can do
    engine: str = ""  # which engine writes, in words, and why if nobody asked for it; nothing for one that reads


@dataclass(frozen=True, eq=False)
class Served:
    """One model folder, or a part of one of several tasks. What is said of it is known while it is not in memory."""

    name: str
    folder: Path
    task: str
    verbs: list[str]  # what it can do
    source: str
    target: str
    engine: str  # which engine writes, in words; nothing for one that reads
    view: View  # what it is
    kept: OnDemand[Holding]
    part: str = ""

    @classmethod
    def of(cls, name: str, folder: Path, kept: OnDemand[Holding], part: str = "") -> "Served":
        """Described by the model itself."""
        model, task, others, engine = kept.get()
        if part:
            model, others = model.parts[part], {}
            task = model.task.name
        verbs = [verb for verb in VERBS if hasattr(model, verb) or verb in others]
        about = {side: model.about.get(side) or UNKNOWN for side in ("source", "target")}
        what = {"name": name, "task": task, "verbs": verbs, "looks": looks(model)}
        if "translate" in verbs:
            what |= about | {f"{side}_name": name_of(code) for side, code in about.items()}
        return cls(
            name=name, folder=folder, task=task, verbs=verbs, engine=engine,
            view=model_view(model) | what, kept=kept, part=part, **about,
        )  # fmt: skip

    @property
    def model(self) -> Any:
        """What answers, opened anew if it is not in memory."""
        return opened(self.kept, self.part)

    def does(self, verb: str) -> Any:
        """The object that does it."""
        self.able(verb)
        holding = self.kept.get()
        made = None if self.part else holding.uses.get(verb)
        return self.model if made is None else made()

    def able(self, verb: str) -> "Served":
        """This one; refused if it cannot do that, with what it can."""
        if verb not in self.verbs:
            instead = " or ".join(f"POST /api/{other}" for other in self.verbs)
            what = f"{self.name} is a model of the task {self.task!r} and cannot {verb}"
            raise Refusal(400, f"{what}; use {instead}")
        return self

    @property
    def translator(self) -> Translator:
        return self.does("translate")


def opened(kept: OnDemand[Holding], part: str = "") -> Any:
    whole = kept.get().model
    return whole.parts[part] if part else whole


def hold(folder: Path, device: str, engine: str) -> Holding:
    """What a folder holds, opened for its task."""
    loaded = look(folder, device_name(device))
    if (name := task_named(loaded.about)) in OPENERS:
        opener = OPENERS[name].open
        model = opener(loaded, **({"engine": engine} if "workers" in signature(opener).parameters else {}))
    else:
        task = task_in(loaded)
        model, name = task.open(loaded, **({"engine": engine} if "workers" in options(task) else {})), task.name
    if not isinstance(model, Opened):
        return Holding(model, name, uses(loaded))
    reason = why(loaded, model.engine) if engine == ENGINE else ""
    return Holding(model, name, uses(loaded), in_words(model.engine) + (f", since {reason}" if reason else ""))


def uses(loaded: Loaded) -> dict[str, Callable[[], Any]]:
    """What a model can do beside its task with nothing more to learn, with the same weights: embed, if it can."""
    if loaded.tells and not loaded.is_built:
        return {"embed": cache(partial(open_embedder, loaded))} if loaded.architecture in FRAMES else {}
    from qkv.tasks import TASKS, USES

    found: dict[str, Callable[[], Any]] = {}
    for name in USES.keys() - TASKS.keys():
        with suppress(InputError):  # it has no backbone
            found[name] = partial(itself, task_in(loaded, name).open(loaded))
    return found


def itself(made: Any) -> Any:
    return made


class Models:
    """In the order given: where two models do the same, the first does, unless the other is named."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)
        self.translators = some = [one for one in served if "translate" in one.verbs]
        self.codes = list(dict.fromkeys([*(one.source for one in some), *(one.target for one in some)]))

    @classmethod
    def load(cls, folders: Sequence[Path], device: str = "cpu", engine: str = ENGINE, *, keep: float = 0.0) -> "Models":
        """Each is named after its folder; where the name is taken, with the first number that is free.

        `engine` is for those that write, as in `engines.open_translator`. With `keep`, a model is released that nobody
        has asked for so many seconds; each is opened once in any case, to see that it can be.
        """
        if not folders:
            raise InputError("no model was given; for example: qkv serve --model model")
        served: dict[str, Served] = {}
        for folder in map(Path, folders):
            own = folder.resolve().name
            name = next(name for name in chain([own], (f"{own}-{i}" for i in count(2))) if name not in served)
            kept = OnDemand(partial(hold, folder, device, engine), keep)
            served[name] = Served.of(name, folder, kept)
            for part in getattr(kept.get().model, "parts", {}):  # each answers by a name of its own
                served[f"{name}.{part}"] = Served.of(f"{name}.{part}", folder, kept, part)
            kept.release(now=keep > 0)  # so that many folders never fill the memory
        return cls(list(served.values()))

    def release(self) -> None:
        """Let go of the models that nobody has asked for long enough."""
        for one in self.served:
            one.kept.release()

    def named(self, name: str) -> Served:
        known = {one.name: one for one in self.served}
        if name not in known:
            raise Refusal(404, f"there is no model {name!r} on this server; {nearest(name, known)}")
        return known[name]

    def able(self, verb: str, name: str | None = None) -> Served:
        """The model of that name, or the first, that can do something."""
        if name is not None:
            return self.named(name).able(verb)
        for one in self.served:
            if verb in one.verbs:
                return one
        others = ", ".join(f"{one.name} ({', '.join(one.verbs)})" for one in self.served)
        raise Refusal(400, f"no model of this server can {verb}; it has {others}")

    def code(self, asked: str) -> str:
        """The server's own spelling of a language code."""
        code = find(asked, self.codes)
        if code is None:
            self.able("translate")  # or no language is
            raise Refusal(400, f"{asked[:40]} is not supported")  # LibreTranslate's sentence, as clients know it
        return code

    def pair(self, source: str, target: str) -> Served | None:
        """The model from one code to another, or None where both are the same language and none translates it."""
        for one in self.translators:
            if (one.source, one.target) == (source, target):
                return one
        if source == target:
            return None
        to, from_ = (f"{name_of(code)} ({code})" for code in (target, source))
        raise Refusal(400, f"{to} is not available as a target language from {from_}")

    def languages(self) -> list[dict[str, Any]]:
        """GET /languages: each with its targets, itself among them (such a text comes back as it is)."""
        targets = {code: [one.target for one in self.translators if one.source == code] for code in self.codes}
        return [{"code": code, "name": name_of(code), "targets": sorted({code, *targets[code]})} for code in self.codes]
