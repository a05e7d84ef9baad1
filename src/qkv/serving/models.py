"""The models that a server has loaded, and which one translates from a language to another."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from qkv.decoding import Translator
from qkv.decoding.searcher import Opened
from qkv.device import ENGINE, device_name
from qkv.engines import in_words
from qkv.errors import InputError, nearest
from qkv.folder import Loaded, look
from qkv.opening import OPENERS, options, task_in, task_named
from qkv.serving.languages import UNKNOWN, find, name_of
from qkv.serving.limits import Refusal

VERBS = ("translate", "generate", "predict", "fill", "embed")  # what models do, each at /api/VERB


@dataclass(frozen=True, eq=False)
class Served:
    """One model folder, loaded."""

    name: str
    folder: Path
    model: Any  # what `qkv.load` gives: a Translator, a Generator, a Classifier ...
    task: str
    uses: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # what makes of it what else it can do

    @property
    def engine(self) -> str:
        """Which engine writes, in words; nothing for one that reads."""
        return in_words(self.model.engine) if isinstance(self.model, Opened) else ""

    @property
    def verbs(self) -> list[str]:
        """What it can do."""
        return [verb for verb in VERBS if hasattr(self.model, verb) or verb in self.uses]

    def does(self, verb: str) -> Any:
        """The object that does it."""
        made = self.able(verb).uses.get(verb)
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

    @property
    def source(self) -> str:
        return self.model.about.get("source") or UNKNOWN

    @property
    def target(self) -> str:
        return self.model.about.get("target") or UNKNOWN


def uses(loaded: Loaded) -> dict[str, Callable[[], Any]]:
    """What a model can do beside its task with nothing more to learn, with the same weights: embed, if it can."""
    if loaded.context and not loaded.is_built:
        return {"embed": cache(lambda: task_in(loaded, "embed").open(loaded))} if loaded.has_prompts else {}
    from qkv.tasks import TASKS, USES

    found: dict[str, Callable[[], Any]] = {}
    for name in USES.keys() - TASKS.keys():
        with suppress(InputError):  # it has no backbone
            found[name] = partial(itself, task_in(loaded, name).open(loaded))
    return found


def itself(made: Any) -> Any:
    return made


def opened(loaded: Loaded, engine: str, own_process: bool) -> tuple[Any, str]:
    """What a folder holds, opened for its task, and the name of that."""
    how = {"engine": engine, "own_process": own_process}
    if (name := task_named(loaded.about)) in OPENERS:
        return OPENERS[name].open(loaded, **how), name
    task = task_in(loaded)
    return task.open(loaded, **(how if "own_process" in options(task) else {})), task.name


class Models:
    """In the order given: where two models do the same, the first does, unless the other is named."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)
        self.translators = some = [one for one in served if "translate" in one.verbs]
        self.codes = list(dict.fromkeys([*(one.source for one in some), *(one.target for one in some)]))

    @classmethod
    def load(
        cls, folders: Sequence[Path], device: str = "cpu", engine: str = ENGINE, *, own_process: bool = False
    ) -> "Models":
        """Each is named after its folder; where the name is taken, with the first number that is free.

        `engine` and `own_process` are for those that write, as in `engines.open_translator`.
        """
        if not folders:
            raise InputError("no model was given; for example: qkv serve --model model")
        served: dict[str, Served] = {}
        for folder in folders:
            own = Path(folder).resolve().name
            name = next(name for name in chain([own], (f"{own}-{i}" for i in count(2))) if name not in served)
            loaded = look(Path(folder), device_name(device))
            model, task = opened(loaded, engine, own_process)
            if isinstance(model, Opened):
                model.open_workers()  # now, while this process has no threads that a copy would miss
            served[name] = Served(name, Path(folder), model, task, uses(loaded))
            for part, one in getattr(model, "parts", {}).items():  # each answers by a name of its own
                served[f"{name}.{part}"] = Served(f"{name}.{part}", Path(folder), one, one.task.name)
        return cls(list(served.values()))

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
