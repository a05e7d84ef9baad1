"""Examples on their way from files to ids: some at a time, in a nameless file, so that they need no memory."""

import json
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

CHUNK, LETTERS = 4096, 2**20  # examples that are encoded together, or letters: each takes some 100 bytes
LAYOUT = 2  # how chunks are cut: who takes up what another process has encoded must cut them as it did


def is_full(examples: int, letters: int) -> bool:
    return examples >= CHUNK or letters > LETTERS


def chunked(examples: Iterable[Any], texts: Callable[[Any], Iterable[str]]) -> Iterator[list[Any]]:
    """Examples, some at a time."""
    chunk, letters = list[Any](), 0
    for example in examples:
        chunk.append(example)
        letters += sum(map(len, texts(example)))
        if is_full(len(chunk), letters):
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def plain(example: Any) -> Any:
    """What JSON does not know: an example as its values, of which its class makes it again."""
    return list(vars(example).values())


def line_of(given: Any) -> bytes:
    """An example, or several, as a line of JSON."""
    return json.dumps(given, default=plain).encode() + b"\n"


@dataclass(frozen=True)
class Spooled:
    """Some examples as a line of JSON: whoever does not ask for them hands it on as it is."""

    kind: type[Any]
    line: bytes
    letters: int = 0  # of their texts
    numbers: Sequence[float] = ()  # that their keys are hashed to, where somebody wants to know
    without: Sequence[int] = ()  # the places of those in the line that are none of them

    @classmethod
    def of(cls, kind: type[Any], examples: Iterable[Any]) -> "Spooled":
        return cls(kind, line_of([*examples]))

    def examples(self) -> list[Any]:
        without = set(self.without)
        return [self.kind(*values) for at, values in enumerate(json.loads(self.line)) if at not in without]

    def parted(self, threshold: float) -> tuple["Spooled | None", list[Any]]:
        """Those with numbers above a threshold, if there are any, and the others."""
        low = np.flatnonzero(np.asarray(self.numbers) <= threshold).tolist()
        if not low:
            return self, []
        values = json.loads(self.line)
        kept = replace(self, without=low) if len(low) < len(values) else None
        return kept, [self.kind(*values[at]) for at in low]


class Spool:
    """A file of such lines, which can be read again; behind each stand its numbers."""

    def __init__(self, kind: type[Any], place: Path) -> None:
        self.kind, self.count = kind, 0
        self.file = tempfile.TemporaryFile(dir=place if place.is_dir() else None)  # noqa: SIM115
        self._sizes: list[tuple[int, int]] = []  # the letters and the examples of each chunk
        self._waiting, self._numbers, self._letters = list[Any](), array("d"), 0

    def add(self, example: Any, letters: int = 0, number: float = 1.0) -> None:
        """One more, with as many letters, whose key is hashed to that number."""
        self.count += 1
        self._waiting.append(example)
        self._numbers.append(number)
        self._letters += letters
        if is_full(len(self._waiting), self._letters):
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self.file.write(line_of(self._waiting) + self._numbers.tobytes())
            self._sizes.append((self._letters, len(self._waiting)))
            self._waiting, self._numbers, self._letters = [], array("d"), 0

    def __len__(self) -> int:
        return self.count

    def chunks(self) -> Iterator[Spooled]:
        self._write()
        self.file.seek(0)
        for letters, count in self._sizes:
            line, numbers = self.file.readline(), array("d")
            numbers.frombytes(self.file.read(count * numbers.itemsize))
            yield Spooled(self.kind, line, letters, numbers)

    def __iter__(self) -> Iterator[Any]:
        for chunk in self.chunks():
            yield from chunk.examples()
