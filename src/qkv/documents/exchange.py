"""The exchange formats of translators, filled where they lack something: XLIFF 1.2 and 2.x with targets, TMX 1.4 with
variants in the target language."""

from qkv.documents.format import XmlFormat
from qkv.documents.tags import Element
from qkv.errors import InputError
from qkv.text.exchange import LANGUAGES
from qkv.text.language import pick

# A target that still waits for its translator, and what it becomes: the attribute "state" of XLIFF 1.2 and 2.0.
STATES = {"new": "needs-review-translation", "needs-translation": "needs-review-translation", "initial": "translated"}


class Xliff(XmlFormat):
    """XLIFF 1.2 and 2.x; a unit that has its target, or translate="no", is kept."""

    def find(self) -> None:
        found = self.elements("xliff", "XLIFF 1.2 or 2.0")
        for element in found:
            if element.name in ("trans-unit", "segment"):
                self.unit(element)
        root = found[-1]
        for element in [root, *root.children]:
            for side, attribute in zip(("source", "target"), LANGUAGES.get(element.name, ()), strict=False):
                self.languages.check(self.name, attribute, element.get(attribute), side)
        if root.get("version").startswith("2") and self.segments and not root.get("trgLang") and self.languages.target:
            at = root.inside[0] - 1  # required as soon as there is a target: XLIFF 2.0, section 4.3.1.36
            self.edits.append((at, at, f' trgLang="{self.languages.target}"'))

    def unit(self, unit: Element) -> None:
        source, target = unit.child("source"), unit.child("target")
        said = [element.get("translate") for element in unit.outwards()]  # the nearest element that says it counts
        if source is None or next(filter(None, said), "") == "no":
            self.kept += 1
            return
        state = next((owner for owner in (target, unit) if owner and owner.get("state")), None)
        is_waiting = state is not None and state.get("state") in STATES
        if target and self.text[slice(*target.inside)].strip() and not is_waiting:
            self.kept += 1
            return
        if state is not None and is_waiting:
            value, start, end = state.attributes()["state"]
            if state is unit or not state.is_close:  # an empty <target/> is written anew, below
                self.edits.append((start, end, STATES[value]))
        name = source.text[1:].split("source")[0] + "target"  # with its namespace's prefix
        if target is None:
            after = (unit.child("seg-source") or source).end
            self.fill(after, after, source, f"{self.space_before(source.start)}<{name}>", f"</{name}>")
        elif target.is_close:
            first = target.text.removesuffix("/>").rstrip() + ">"
            self.fill(target.start, target.end, source, first, f"</{name}>")
        else:
            self.fill(*target.inside, source)


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
            return segment is not None
        space = self.space_before(variants[own or ""].start)
        at = max(variant.end for variant in variants.values())
        self.fill(at, at, segment, f'{space}<tuv xml:lang="{target}"><seg>', "</seg></tuv>")
        return True
