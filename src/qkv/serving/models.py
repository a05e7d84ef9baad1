"""The models that a server has loaded, and which one translates from a language to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from qkv.decoding import Translator
from qkv.errors import InputError, nearest
from qkv.opening import load_translator
from qkv.serving.languages import UNKNOWN, find, name_of
from qkv.serving.limits import Refusal


@dataclass(frozen=True)
class Served:
    """One model folder, loaded."""

    name: str
    folder: Path
    translator: Translator

    @property
    def source(self) -> str:
        return str(self.translator.about.get("source") or UNKNOWN)

    @property
    def target(self) -> str:
        return str(self.translator.about.get("target") or UNKNOWN)


class Models:
    """In the order given: where two models translate the same pair, the first does, unless the other is named."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)
        self.sources = list(dict.fromkeys(one.source for one in served))
        self.targets = list(dict.fromkeys(one.target for one in served))
        self.codes = list(dict.fromkeys([*self.sources, *self.targets]))

    @classmethod
    def load(
        cls, folders: Sequence[Path], device: str = "cpu", engine: str = "lean", *, own_process: bool = False
    ) -> "Models":
        """Each is named after its folder; where the name is taken, with the first number that is free.

        `own_process` is as in `engines.open_translator`.
        """
        if not folders:
            raise InputError("no model was given; for example: qkv serve --model model")
        served: list[Served] = []
        for folder in folders:
            own, taken = Path(folder).resolve().name, [one.name for one in served]
            name = next(name for name in chain([own], (f"{own}-{i}" for i in count(2))) if name not in taken)
            translator = load_translator(folder, device, engine=engine, own_process=own_process)
            translator.open_workers()  # now, while this process has no threads that a copy would miss
            served.append(Served(name, Path(folder), translator))
        return cls(served)

    def named(self, name: str) -> Served:
        for one in self.served:
            if one.name == name:
                return one
        known = nearest(name, [one.name for one in self.served])
        raise Refusal(404, f"there is no model {name!r} on this server; {known}")

    def code(self, asked: str) -> str:
        """The server's own spelling of a language code."""
        code = find(asked, self.codes)
        if code is None:
            raise Refusal(400, f"{asked[:40]} is not supported")  # LibreTranslate's sentence, as clients know it
        return code

    def pair(self, source: str, target: str) -> Served | None:
        """The model from one code to another, or None where both are the same language and none translates it."""
        source, target = self.code(source), self.code(target)
        for one in self.served:
            if (one.source, one.target) == (source, target):
                return one
        if source == target:
            return None
        names = f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)} ({source})"
        raise Refusal(400, names)

    def languages(self) -> list[dict[str, Any]]:
        """GET /languages: each with its targets, itself among them (such a text comes back as it is)."""
        targets = {code: [one.target for one in self.served if one.source == code] for code in self.codes}
        return [{"code": code, "name": name_of(code), "targets": sorted({code, *targets[code]})} for code in self.codes]
