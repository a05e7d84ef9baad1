"""TMX 1.4: each unit gets the variant of the target language that it lacks."""

from qkv.documents.xml import Element, XmlFormat
from qkv.errors import InputError
from qkv.text.language import pick


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
        before = f'{space}<tuv xml:lang="{target}"><seg>'
        raw = self.text[slice(*segment.inside)]
        self.add(at, at, self.parts(*segment.inside), raw, before=before, after="</seg></tuv>")
        return True
