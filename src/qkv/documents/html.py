"""HTML: each block's text is translated as a whole, and its inline tags go where their words go."""

import codecs
import re
import unicodedata
from bisect import bisect_left
from dataclasses import replace
from typing import Any

from qkv.documents.format import Languages, TextFormat, edited
from qkv.documents.protect import HELD, Patterns
from qkv.documents.segment import Kind, Mark, Parts, Translates, about_of, changed
from qkv.documents.tags import Tag, decoded, end_of, scan
from qkv.documents.text import TranslatedText
from qkv.documents.translate import translate_segments

PHRASE = "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr output q ruby rb rp rt s small"
INLINE = frozenset(f"{PHRASE} span strike strong sub sup time tt u".split())
NO_END = "area base br col embed hr img input link meta param source track wbr"
EMPTY = frozenset(NO_END.split())
ALONE = frozenset(["img", "input", "wbr"])  # empty elements that stand in the middle of a sentence
WORDS = frozenset(HELD)  # kept, and a word of their sentence
KEPT = frozenset(["pre", "textarea", "svg", "math", "object", "iframe", "audio", "video", "canvas", "template"])
RAW = frozenset(["script", "style"])  # in which "<" is no tag
ATTRIBUTES = ("title", "alt", "placeholder", "aria-label")
METAS = frozenset(["description", "og:title", "og:description", "twitter:title", "twitter:description"])
NO = re.compile(r"(?:^|\s)notranslate(?:\s|$)")
BASIC = frozenset(["&amp;", "&lt;", "&gt;"])  # which are written again as they were
SPACES = re.compile(r"[ \t\n\r\f]+")  # what HTML shows as one space
CHARSET = re.compile(
    r"""<(?:meta\s[^<>]{0,200}?charset|\?xml[^<>]{0,100}?encoding)\s*=\s*["']?([\w.-]+)""", re.IGNORECASE
)


def translate_html(translator: Translates, html: list[str], *, protect: Patterns = (), **how: Any) -> list[str]:
    """Each text as HTML, a page or a part of one."""
    return [page.text for page in translate_pages(translator, html, protect=protect, **how)]


def translate_pages(
    translator: Translates, html: list[str], *, protect: Patterns = (), **how: Any
) -> list[TranslatedText]:
    """The same, with what is to be said about the sentences."""
    # A byte order mark, since whatever a text declares, it is text already.
    data = [codecs.BOM_UTF8 + text.encode("utf-8", "surrogatepass") for text in html]
    about = about_of(translator)
    languages = Languages(about.get("source", ""), about.get("target", ""))
    pages = [Html(one, "the HTML text", languages) for one in data]
    done = iter(translate_segments(translator, [part for page in pages for part in page.segments], protect, **how))
    results = []
    for page in pages:
        own = [next(done) for _ in page.segments]
        text = page.write([one.ranked[0] if one.ranked else None for one in own]).decode("utf-8-sig")
        results.append(TranslatedText(text, [text], [remark for one in own for remark in one.remarks]))
    return results


class Html(TextFormat):
    """HTML pages; script, style, pre, code, comments, translate="no" and class="notranslate" stay as they are."""

    is_markup = True

    def find(self) -> None:
        declared = CHARSET.search(self.text) if self.encoding == "utf-8" and self.text.isascii() else None
        if declared and declared[1].lower() not in ("utf-8", "utf8"):
            self.encoding = "ascii"  # which is right in all, for a page that has no other letters
        self.values: list[tuple[int, int, Parts]] = []  # of attributes
        self.languages_at: list[tuple[int, int, str]] = []  # of those that say the page's language
        self.run: Parts = []
        self.first = self.at = 0  # where the run began, and up to where the text is read
        tags = list(scan(self.text, raw=RAW))
        skip = 0  # tags that lie in something kept
        for number, tag in enumerate(tags):
            if number >= skip:
                skip = (end_of(tags, number) if is_kept(tag) and tag.name not in EMPTY else number) + 1
                self.meet(tag, tags[skip - 1].end)
        self.read(len(self.text))
        self.flush()
        self.blocks = len(self.segments)
        for start, stop, parts in self.values:
            self.add(start, stop, parts)

    def meet(self, tag: Tag, end: int) -> None:
        """A tag, or something kept that begins with it, up to `end`."""
        self.read(tag.start)
        for name, (value, start, stop) in tag.attributes().items() if tag.is_open and not is_kept(tag) else ():
            quoted = tag.text[start - tag.start - 1] in "\"'"
            if is_told(tag, name) and quoted and any(letter.isalpha() for letter in value):
                self.values.append((start, stop, shown(value)))
            elif name in ("lang", "xml:lang") and self.languages.is_source(value):
                self.languages_at.append((start, stop, self.languages.target))
        kind = kind_of(tag)
        if kind is None:
            self.flush()
            self.first = self.at = end
            return
        self.at = end
        self.run.append(Mark(self.text[tag.start : end], kind, tag.name, tag.start))

    def read(self, end: int) -> None:
        self.run += shown(self.text[self.at : end])
        self.at = end

    def flush(self) -> None:
        """The block that ends here is a segment if there are words in it; white space around it is not."""
        run, self.run = self.run, []
        if not any(letter.isalpha() for part in run if isinstance(part, str) for letter in part):
            return
        raw = self.text[self.first : self.at]
        start, end = self.first + len(raw) - len(raw.lstrip()), self.at - len(raw) + len(raw.rstrip())
        if isinstance(run[0], str):
            run[0] = run[0].lstrip()
        if isinstance(run[-1], str):
            run[-1] = run[-1].rstrip()
        self.add(start, end, run)

    def write(self, done: list[Parts | None]) -> bytes:
        """Attributes first: the tags that they are in may move with their words."""
        new = [(*span, parts) for span, parts in zip(self.spans, done, strict=True)]
        attributes = [
            (start, end, self.spelled(parts).replace('"', "&quot;").replace("'", "&#x27;"))
            for start, end, parts in new[self.blocks :] if parts
        ]  # fmt: skip
        attributes = sorted(attributes + self.languages_at)
        edits = [
            (start, end, self.spelled([self.moved(part, attributes) for part in parts]))
            for start, end, parts in new[: self.blocks] if parts
        ]  # fmt: skip
        page = edited(self.text, edits + attributes)  # without the attributes that lie in an edit
        return self.encoded(page)

    def moved(self, part: str | Mark, attributes: list[tuple[int, int, str]]) -> str | Mark:
        if isinstance(part, str) or part.number < 0:
            return part
        start, end = part.number, part.number + len(part.code)
        own = attributes[bisect_left(attributes, (start,)) : bisect_left(attributes, (end,))]
        return replace(part, code=edited(self.text, own, start, end))


def is_told(tag: Tag, attribute: str) -> bool:
    """Whether an attribute is text for people."""
    is_meta = tag.name == "meta" and attribute == "content"
    return attribute in ATTRIBUTES or (is_meta and (tag.get("name") or tag.get("property")).lower() in METAS)


def is_kept(tag: Tag) -> bool:
    """Whether an element, with all that is in it, is not to be translated."""
    return tag.is_open and (
        tag.name in WORDS | KEPT | RAW or tag.get("translate").lower() == "no" or bool(NO.search(tag.get("class")))
    )


def kind_of(tag: Tag) -> Kind | None:
    """What a tag is in a sentence; None if it parts one block from another."""
    if not tag.name:
        return "alone" if tag.text.startswith("<!--") else None
    if tag.name in ALONE | RAW:
        return "alone"
    if tag.name in WORDS or (tag.name in INLINE and is_kept(tag)):
        return "word"
    if tag.name in INLINE:
        return "alone" if tag.is_open and tag.is_close else "open" if tag.is_open else "close"
    return None


def shown(text: str) -> Parts:
    """Text without entities and with single spaces."""
    return changed(decoded(text, kept_entity), lambda part: [SPACES.sub(" ", part)])


def kept_entity(entity: str, character: str) -> Mark | None:
    """An entity that is no letter or punctuation is a mark."""
    if entity in BASIC or (character and unicodedata.category(character[0])[0] in "LNP"):
        return None
    return Mark(entity, "space" if character.isspace() else "word")
