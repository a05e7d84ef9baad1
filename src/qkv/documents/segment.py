"""What a format hands over and gets back: text with marks in it, which are not language."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from qkv.folder import About

# open, close: around words that they belong to, <b> and </b>; they go where those words go.
# alone: between words, <img>; it goes where the words around it go.
# word: stands in a sentence as a word does, {name}.
# space: stands where white space stands, &nbsp; or the end of a line in the middle of a sentence.
# gap: parts what is before it from what is after it, a line break; it stays between them.
Kind = Literal["open", "close", "alone", "word", "space", "gap"]


@dataclass(frozen=True)
class Mark:
    """Something in a text that comes back exactly once, to the letter."""

    code: str
    kind: Kind = "alone"
    pair: str = ""  # what a close shares with its open
    number: int = -1  # for a format that writes its marks itself, and knows them by it
    is_text: bool = False  # found in text, so that the format has to spell it as it spells text


Parts = list[str | Mark]


class HasText(Protocol):
    @property
    def text(self) -> str: ...


class Answer(HasText, Protocol):
    """A text as a translator gives it back."""

    @property
    def alternatives(self) -> Sequence[HasText]: ...

    def remarks(self) -> list[str]: ...


class Translates(Protocol):
    """What documents need of a translator; `about` and `align`, which a Translator has too, are used where they are."""

    @property
    def translate(self) -> Callable[..., Sequence[Answer]]: ...  # of texts, and of how to search


def about_of(translator: Translates) -> About:
    """What its model folder says of it, if it has one."""
    return getattr(translator, "about", About())


def code_of(parts: Parts) -> str:
    return "".join(part if isinstance(part, str) else part.code for part in parts)


def changed(parts: Parts, change: Callable[[str], Parts]) -> Parts:
    """The parts, with what each text among them is changed to."""
    return [new for part in parts for new in (change(part) if isinstance(part, str) else [part])]


def replaced(text: str, ranges: Iterable[tuple[int, int, str | Mark]]) -> Parts:
    """The text with something else from each start to its end, in their order; strings that touch are one."""
    parts: Parts = [""]
    begin = 0
    for start, end, new in [*ranges, (len(text), len(text), "")]:
        for part in (text[begin:start], new):
            if isinstance(part, str) and isinstance(parts[-1], str):
                parts[-1] += part
            else:
                parts.append(part)
        begin = end
    return [part for part in parts if part != ""]
