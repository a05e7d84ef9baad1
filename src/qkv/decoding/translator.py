"""A translator: a model folder, loaded, with text in and text out."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from qkv import folder
from qkv.config import check_keys
from qkv.decoding.engine import Engine, Lean, Native, Search
from qkv.decoding.engines import open_engine
from qkv.decoding.hypothesis import Hypothesis, loops
from qkv.decoding.workers import Workers, can_fork
from qkv.errors import InputError
from qkv.memory import keep_freed_memory
from qkv.models import EncoderDecoder, Model
from qkv.text.language import is_unspaced
from qkv.text.normalise import normalise
from qkv.text.sentences import split_to_fit
from qkv.text.tokenizer import Tokenizer

CELLS = 2**14  # tokens x beams of one batch
SMALL = 256  # source tokens that a batch is not made smaller than, to keep several cores at work
BLOCK = 3  # no run of so many tokens may come twice when a sentence that looped is decoded again


class Scored(NamedTuple):
    """A text and its score: log p, divided by the length penalty; 0 is certain, lower is less so."""

    text: str
    score: float


@dataclass(frozen=True)
class Translated:
    """One input line, translated."""

    text: str
    score: float
    alternatives: list[Scored] = field(default_factory=list)  # the n best, this one first
    parts: int = 1  # pieces that a too long line was cut into
    looped: bool = False  # the first attempt repeated itself; this is the second, without repetitions
    cut: bool = False  # the limit was reached before the model ended its sentence

    def remarks(self) -> list[str]:
        """What a person should know about this line."""
        said = [f"was longer than the model's training sentences and was translated in {self.parts} parts"] * (
            self.parts > 1
        )
        said += ["ran in a loop at first and was decoded again without repetitions"] * self.looped
        return said + ["reached the length limit before its end"] * self.cut


class Translator:
    """`Translator.load(folder).translate(texts)`; searches give the same answer whatever else is in the batch."""

    def __init__(
        self, model: Model, tokenizer: Tokenizer, about: dict[str, object], engine: Engine | None = None
    ) -> None:
        self.model, self.tokenizer, self.about = model.eval(), tokenizer, about
        self.engine: Engine = engine or Native(model)
        self.folder: Path | None = None  # where it was loaded from
        self.workers = 1  # batches that are decoded side by side
        self.crew: tuple[Engine, Workers] | None = None
        known = about.get("longest_source")
        self.longest: int = min(known if isinstance(known, int) else 10**9, model.config.max_length - 1)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", engine: str = "native") -> "Translator":
        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError):
            raise InputError(f"there is no device {device!r} on this machine; use cpu") from None
        loaded = folder.load(Path(path), device)
        if not isinstance(loaded.model, EncoderDecoder):
            task = loaded.about.get("task")
            raise InputError(f"{path} holds a model of the task {task!r}, no translator; use qkv predict")
        translator = cls(loaded.model, loaded.tokenizer, loaded.about, open_engine(engine, Path(path), loaded, device))
        translator.folder = Path(path)
        if device == "cpu":
            translator.workers = torch.get_num_threads()
            keep_freed_memory()
        return translator

    def translate(self, texts: str | Sequence[str], **how: int | float | bool) -> list[Translated]:
        """Translate lines of text; `how` are the fields of Search: beam=5, n_best=3, sampling=True, top_p=0.9 ..."""
        check_keys(Search, how, "search")
        search = Search(**how)  # type: ignore[arg-type]
        lines = [normalise(text) for text in ([texts] if isinstance(texts, str) else texts)]
        pieces = [split_to_fit(line, self.fits) if line else [] for line in lines]
        flat = [piece for parts in pieces for piece in parts]
        found = iter(self.search([self.tokenizer.encode(piece.strip()) for piece in flat], search))
        return [self.join(parts, [next(found) for _ in parts]) for parts in pieces]

    def fits(self, text: str) -> bool:
        return len(self.tokenizer.encode(text.strip())) <= self.longest

    def join(self, parts: list[str], found: list["Found"]) -> Translated:
        """The pieces of one line as one translation; alternative i is made of alternative i of each piece."""
        if not parts:
            return Translated("", 0.0, [Scored("", 0.0)])
        gap = "" if is_unspaced(str(self.about.get("target", ""))) else " "
        ranks = min(len(piece.hypotheses) for piece in found)
        ranked = []
        for rank in range(ranks):
            chosen = [piece.hypotheses[rank] for piece in found]
            texts = self.tokenizer.decode_batch([hypothesis.tokens for hypothesis in chosen])
            # A model may write a newline, byte by byte; a line in is still one line out.
            ranked.append(Scored(normalise(gap.join(texts)), sum(h.score for h in chosen) / len(chosen)))
        first = [piece.hypotheses[0] for piece in found]
        looped, cut = any(piece.looped for piece in found), not all(hypothesis.ended for hypothesis in first)
        return Translated(ranked[0].text, ranked[0].score, ranked, len(parts), looped, cut)

    def search(self, sources: list[list[int]], how: Search) -> list["Found"]:
        """Hypotheses for each source, which are batched by length; several batches at a time on several cores."""
        found: list[Found | None] = [None] * len(sources)
        batches = by_length([len(ids) + 1 for ids in sources], CELLS // how.beam, self.workers)
        results = self.side_by_side([[sources[i] for i in batch] for batch in batches], how)
        for batch, some in zip(batches, results, strict=True):
            for i, result in zip(batch, some, strict=True):
                found[i] = result
        return [result for result in found if result is not None]

    def side_by_side(self, batches: list[list[list[int]]], how: Search) -> Iterable[list["Found"]]:
        """One core for each batch is faster than all cores for one, and no other process can stall it."""
        if self.workers == 1 or len(batches) == 1:
            return [self.decode(batch, how) for batch in batches]
        if workers := self.hire():
            told = workers([[batch, asdict(how)] for batch in batches])
            return [[Found([Hypothesis(*one) for one in some], looped) for some, looped in batch] for batch in told]
        # What hooks watch must happen here, and CTranslate2 leaves the interpreter alone while it works: threads do.
        with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(lambda batch: self.decode(batch, how), batches))

    def hire(self) -> Workers | None:
        """The processes that work for the engine, if it has some; to be called before a program has threads."""
        if self.workers == 1 or not isinstance(self.engine, Lean) or not can_fork():
            return None
        if self.crew is None or self.crew[0] is not self.engine:
            self.engine.compile()  # once for all
            self.crew = self.engine, Workers(self.told, self.workers)
        return self.crew[1]

    def told(self, asked: tuple[list[list[int]], dict[str, Any]]) -> list[Any]:
        """`decode`, with what JSON can hold in and out."""
        batch, how = asked
        found = self.decode(batch, Search(**how))
        return [([astuple(one) for one in some.hypotheses], some.looped) for some in found]

    def decode(self, sources: list[list[int]], how: Search) -> list["Found"]:
        return self.caught(sources, self.engine.decode(sources, how), how)

    def caught(self, sources: list[list[int]], results: list[list[Hypothesis]], how: Search) -> list["Found"]:
        """Sentences whose translation runs in a loop that the source does not have are decoded once more."""
        bad = [i for i, found in enumerate(results) if loops(found[0].tokens) and not loops(sources[i])]
        again = self.engine.decode([sources[i] for i in bad], how, no_repeat=BLOCK) if bad else []
        second = dict(zip(bad, again, strict=True))
        return [Found(second.get(i, first), i in second) for i, first in enumerate(results)]


class Found(NamedTuple):
    hypotheses: list[Hypothesis]
    looped: bool


def by_length(lengths: list[int], cells: int, parts: int = 1) -> list[list[int]]:
    """Numbers of sentences in batches of like length; rows x longest is at most `cells` (or one row).

    There are about four batches for each of several `parts`, so that none waits long for the last of another.
    """
    if parts > 1:
        cells = min(cells, max(SMALL, sum(lengths) // (4 * parts)))
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= cells:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
