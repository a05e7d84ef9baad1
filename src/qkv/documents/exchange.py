"""The exchange formats of translators, filled where they lack something: XLIFF 1.2 and 2.x with targets, TMX 1.4 with
variants in the target language."""

from qkv.documents.format import Origin, XmlFormat
from qkv.documents.segment import code_of
from qkv.documents.tags import Element, with_attributes
from qkv.errors import InputError
from qkv.text.exchange import LANGUAGES
from qkv.text.language import pick

WAITING = ("new", "needs-translation", "initial")  # states of a target that still waits for its translator
Attributes = dict[str, str]
# What tells where a translation comes from: of <target> in XLIFF 1.2, of <segment> in 2.x, of <tuv> in TMX.
IN_1: dict[Origin, Attributes] = {
    "machine": {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"},
    "exact-match": {"state": "translated", "state-qualifier": "exact-match"},
}
IN_2: dict[Origin, Attributes] = {
    "machine": {"state": "translated", "subState": "qkv:machine"},
    "exact-match": {"state": "translated", "subState": "qkv:exact-match"},
}
IN_TMX: dict[Origin, Attributes] = {
    "machine": {"creationid": "qkv-machine"},
    "exact-match": {"creationid": "qkv-exact-match"},
}


class Xliff(XmlFormat):
    """XLIFF 1.2 and 2.x; a unit that has its target, or translate="no", is kept."""

    has_accelerators = True

    def find(self) -> None:
        found = self.elements("xliff", "XLIFF 1.2 or 2.0")
        root = found[-1]
        self.is_2 = root.get("version").startswith("2")
        self.waiting: list[tuple[Element, bool]] = []  # of each segment its unit, and whether its state says so
        for element in found:
            if element.name in ("trans-unit", "segment"):
                self.unit(element)
        for element in [root, *root.children]:
            for side, attribute in zip(("source", "target"), LANGUAGES.get(element.name, ()), strict=False):
                self.languages.check(self.name, attribute, element.get(attribute), side)
        if self.is_2 and self.segments and not root.get("trgLang") and self.languages.target:
            at = root.inside[0] - 1  # required as soon as there is a target: XLIFF 2.0, section 4.3.1.36
            self.edits.append((at, at, f' trgLang="{self.languages.target}"'))

    def unit(self, unit: Element) -> None:
        source, target = unit.child("source"), unit.child("target")
        said = [element.get("translate") for element in unit.outwards()]  # the nearest element that says it counts
        if source is None or next(filter(None, said), "") == "no":
            self.kept += 1
            return
        state = next((owner.get("state") for owner in (target, unit) if owner and owner.get("state")), "")
        is_waiting = state in WAITING
        if target and self.text[slice(*target.inside)].strip() and not is_waiting:
            self.kept += 1
            if not (state.startswith("needs-") or unit.get("subState") == IN_2["machine"]["subState"]):
                self.known[code_of(self.parts(*source.inside))] = self.parts(*target.inside)
            return
        self.waiting.append((unit, is_waiting))
        name = source.text[1:].split("source")[0] + "target"  # with its namespace's prefix
        if target is None:
            after = (unit.child("seg-source") or source).end
            self.fill(after, after, source, f"{self.space_before(source.start)}<{name}>", f"</{name}>")
        elif target.is_close:
            first = target.text.removesuffix("/>").rstrip() + ">"
            self.fill(target.start, target.end, source, first, f"</{name}>")
        else:
            self.fill(target.start, target.inside[1], source, target.text)

    def marked(self, origins: list[Origin]) -> list[tuple[int, int, str]]:
        edits = []
        for number, (origin, (unit, is_waiting)) in enumerate(zip(origins, self.waiting, strict=True)):
            state = (IN_2 if self.is_2 else IN_1).get(origin) or {"state": "translated"}
            if not origin and not is_waiting:
                continue
            if self.is_2:
                edits.append((unit.start, unit.inside[0], with_attributes(unit.text, state)))
                continue
            before, after = self.around[number]
            space, tag = before[: before.index("<")], before[before.index("<") :]
            self.around[number] = space + with_attributes(tag, state), after
        return edits


class Tmx(XmlFormat):
    """TMX 1.4, translation memories; a unit that has its target variant is kept."""

    def find(self) -> None:
        source, target = self.languages.source, self.languages.target
        if not target:
            raise InputError(
                f"{self.name}: a new variant needs its language, which this model's config.json does not name as its "
                'target; train with --to, or add "target" to config.json'
            )
        found = self.elements("tmx", "TMX 1.4")
        source = source or next((element.get("srclang") for element in found if element.name == "header"), "")
        units = [element for element in found if element.name == "tu"]
        missing = sum(not self.unit(unit, source, target) for unit in units)
        if missing:
            self.remarks.append(f"{missing} of {len(units)} units have no variant in {source!r} and were kept")

    def unit(self, unit: Element, source: str, target: str) -> bool:
        """False if there is nothing to translate from."""
        variants = {
            variant.get("xml:lang") or variant.get("lang"): variant
            for variant in unit.children[::-1]
            if variant.name == "tuv"
        }
        own, other = pick(tuple(variants), source), pick(tuple(variants), target)
        segment = variants[own].child("seg") if own is not None else None
        if segment is None or other is not None:
            self.kept += 1
            filled = variants[other].child("seg") if other is not None else None
            if segment and filled and variants[other or ""].get("creationid") != IN_TMX["machine"]["creationid"]:
                self.known[code_of(self.parts(*segment.inside))] = self.parts(*filled.inside)
            return segment is not None
        space = self.space_before(variants[own or ""].start)
        at = max(variant.end for variant in variants.values())
        self.fill(at, at, segment, f'{space}<tuv xml:lang="{target}"><seg>', "</seg></tuv>")
        return True

    def marked(self, origins: list[Origin]) -> list[tuple[int, int, str]]:
        for number, origin in enumerate(origins):
            before, after = self.around[number]
            at, end = before.index("<"), before.index(">") + 1
            tag = with_attributes(before[at:end], IN_TMX.get(origin, {}))
            self.around[number] = before[:at] + tag + before[end:], after
        return []
