"""The models that a server has loaded, and which one translates from a language to another."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from qkv.decoding import Generator, Summariser, Translator
from qkv.device import choose_device
from qkv.engines import in_words
from qkv.errors import InputError, nearest
from qkv.folder import Loaded, load
from qkv.look.sentence import reads
from qkv.look.view import View, model_view
from qkv.opening import options, task_in
from qkv.serving.languages import UNKNOWN, find, name_of
from qkv.serving.limits import Refusal
from qkv.serving.on_demand import OnDemand
from qkv.tasks import TASKS, USES

VERBS = ("translate", "generate", "summarise", "predict", "fill", "embed")  # what models do, each at /api/VERB


class Holding(NamedTuple):
    """What is in memory of a model folder."""

    model: Any  # what `qkv.load` gives: a Translator, a Generator, a Classifier ...
    task: str
    uses: Mapping[str, Any]  # what else was made of it, by what that can do


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
        model, task, others = kept.get()
        if part:
            model, others = model.parts[part], {}
            task = model.task.name
        verbs = [verb for verb in VERBS if hasattr(model, verb) or verb in others]
        writes = isinstance(model, Translator | Generator | Summariser)
        about = {side: model.about.get(side) or UNKNOWN for side in ("source", "target")}
        what = {"name": name, "task": task, "verbs": verbs, "looks": reads(model.model)}
        if "translate" in verbs:
            what |= about | {f"{side}_name": name_of(code) for side, code in about.items()}
        return cls(
            name=name, folder=folder, task=task, verbs=verbs, engine=in_words(model.engine) if writes else "",
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
        return holding.uses.get(verb, holding.model) if not self.part else self.model

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


def hold(folder: Path, device: str, engine: str, own_process: bool) -> Holding:
    loaded = load(folder, str(choose_device(device, "cpu")))
    task = task_in(loaded)
    how = {"engine": engine, "own_process": own_process} if "own_process" in options(task) else {}
    model = task.open(loaded, **how)
    if own_process and how:
        model.open_workers()  # now, while this process has no threads that a copy would miss
    return Holding(model, task.name, uses(loaded))


def uses(loaded: Loaded) -> dict[str, Any]:
    """What a model can do beside its task with nothing more to learn, with the same weights: embed, if it can."""
    found: dict[str, Any] = {}
    for name in USES.keys() - TASKS.keys():
        with suppress(InputError):  # it has no backbone
            found[name] = task_in(loaded, name).open(loaded)
    return found


class Models:
    """In the order given: where two models do the same, the first does, unless the other is named."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)
        self.translators = some = [one for one in served if "translate" in one.verbs]
        self.codes = list(dict.fromkeys([*(one.source for one in some), *(one.target for one in some)]))

    @classmethod
    def load(
        cls, folders: Sequence[Path], device: str = "cpu", engine: str = "lean", *, own_process: bool = False,
        keep: float = 0.0,
    ) -> "Models":  # fmt: skip
        """Each is named after its folder; where the name is taken, with the first number that is free.

        `engine` and `own_process` are for those that write, as in `engines.open_translator`. With `keep`, a model is
        released that nobody has asked for so many seconds; each is opened once in any case, to see that it can be.
        """
        if not folders:
            raise InputError("no model was given; for example: qkv serve --model model")
        served: dict[str, Served] = {}
        for folder in map(Path, folders):
            own = folder.resolve().name
            name = next(name for name in chain([own], (f"{own}-{i}" for i in count(2))) if name not in served)
            kept = OnDemand(partial(hold, folder, device, engine, own_process and not keep), keep)
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
