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
        return self.translator.about.get("source") or UNKNOWN

    @property
    def target(self) -> str:
        return self.translator.about.get("target") or UNKNOWN


class Models:
    """In the order given: where two models translate the same pair, the first does, unless the other is named."""

    def __init__(self, served: Sequence[Served]) -> None:
        self.served = list(served)
        self.codes = list(dict.fromkeys([*(one.source for one in served), *(one.target for one in served)]))

    @classmethod
    def load(
        cls, folders: Sequence[Path], device: str = "cpu", engine: str = "lean", *, own_process: bool = False
    ) -> "Models":
        """Each is named after its folder; where the name is taken, with the first number that is free.

        `own_process` is as in `engines.open_translator`.
        """
        if not folders:
            raise InputError("no model was given; for example: qkv serve --model model")
        served: dict[str, Served] = {}
        for folder in folders:
            own = Path(folder).resolve().name
            name = next(name for name in chain([own], (f"{own}-{i}" for i in count(2))) if name not in served)
            translator = load_translator(folder, device, engine=engine, own_process=own_process)
            translator.open_workers()  # now, while this process has no threads that a copy would miss
            served[name] = Served(name, Path(folder), translator)
        return cls(list(served.values()))

    def named(self, name: str) -> Served:
        known = {one.name: one for one in self.served}
        if name not in known:
            raise Refusal(404, f"there is no model {name!r} on this server; {nearest(name, known)}")
        return known[name]

    def code(self, asked: str) -> str:
        """The server's own spelling of a language code."""
        code = find(asked, self.codes)
        if code is None:
            raise Refusal(400, f"{asked[:40]} is not supported")  # LibreTranslate's sentence, as clients know it
        return code

    def pair(self, source: str, target: str) -> Served | None:
        """The model from one code to another, or None where both are the same language and none translates it."""
        for one in self.served:
            if (one.source, one.target) == (source, target):
                return one
        if source == target:
            return None
        to, from_ = (f"{name_of(code)} ({code})" for code in (target, source))
        raise Refusal(400, f"{to} is not available as a target language from {from_}")

    def languages(self) -> list[dict[str, Any]]:
        """GET /languages: each with its targets, itself among them (such a text comes back as it is)."""
        targets = {code: [one.target for one in self.served if one.source == code] for code in self.codes}
        return [{"code": code, "name": name_of(code), "targets": sorted({code, *targets[code]})} for code in self.codes]
