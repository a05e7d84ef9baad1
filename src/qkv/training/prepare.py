"""From files of pairs to a tokenizer and shards: read, examined, encoded, and never twice."""

import hashlib
import heapq
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from qkv.data import Corpus, Written, write_shards
from qkv.errors import InputError
from qkv.text import Pair, read_pairs
from qkv.text.doctor import Report, Rules, examine, fail_if_unusable
from qkv.text.normalise import normalise
from qkv.text.tokenizer import TOKENIZERS, Tokenizer
from qkv.training.settings import DataConfig, TextConfig

MOST_LOTS = 100_000  # ten times what a run can hold out: to say what one in ten is, no more need be known
SAMPLE = 200_000  # pairs from which sub-words are learned, drawn from the whole corpus

Pairs = list[tuple[str, str]]
Tick = Callable[[int], None]


@dataclass
class Survey:
    """What a first reading of all files tells."""

    report: Report
    valid: Pairs  # from files; empty if pairs must be held out
    valid_report: Report
    sample: Pairs = field(default_factory=list)
    characters: int = 0
    files: dict[str, str] = field(default_factory=dict)  # file -> digest
    lots: list[float] = field(default_factory=list)  # the smallest lots of source sentences, in order

    def threshold(self, held_out: int) -> float:
        """Pairs whose source has at most this lot are held out: `held_out` sources, one in ten at the most."""
        if self.valid:
            return -1.0
        return self.lots[min(held_out, max(1, len(self.lots) // 10)) - 1]


class Source:
    """The files of a run and the languages in them; can be read again and again."""

    def __init__(
        self, train: list[Path], valid: list[Path], test: list[Path], source: str, target: str, rules: Rules
    ) -> None:
        self.train, self.valid, self.test, self.rules = train, valid, test, rules
        self.source, self.target = source or None, target or None
        self.held_out: set[str] = set()

    def survey(self, tick: Tick) -> Survey:
        """Read everything once: count, examine, draw a sample. Memory does not grow with the corpus."""
        valid_report, report = Report(), Report()
        lenient = replace(self.rules, drop_copies=False)
        valid = [(p.source, p.target) for p in examine(self.read(self.valid, valid_report), lenient, valid_report)]
        if self.valid:
            try:
                fail_if_unusable(valid_report, minimum=1)
            except InputError as error:
                raise InputError(f"the validation files: {error}") from None
        self.held_out = {source for source, _ in valid}
        self.held_out |= {normalise(pair.source) for pair in self.read(self.test, Report())}
        survey = Survey(report, valid, valid_report)
        rng, smallest = random.Random(0), Smallest(MOST_LOTS)
        for number, pair in enumerate(self.training_pairs(report)):
            survey.characters += len(pair[0]) + len(pair[1])
            if number < SAMPLE:
                survey.sample.append(pair)
            elif (slot := rng.randrange(number + 1)) < SAMPLE:
                survey.sample[slot] = pair
            smallest.add(lot("valid", pair[0]))
            if number % 1000 == 0:
                tick(number)
        survey.lots = smallest.sorted()
        fail_if_unusable(report)
        survey.files = {str(path): digest(path) for path in [*self.train, *self.valid, *self.test]}
        return survey

    def training_pairs(self, report: Report) -> Iterator[tuple[str, str]]:
        for pair in examine(self.read(self.train, report), self.rules, report, self.held_out):
            yield pair.source, pair.target

    def read(self, paths: list[Path], report: Report) -> Iterator[Pair]:
        """The pairs of some files; of none, if there are no files."""
        if not paths:
            return iter(())
        return read_pairs(paths, source=self.source, target=self.target, skipped=report.skipped)


def learn_tokenizer(c: TextConfig, sample: Iterable[Iterable[str]]) -> Tokenizer:
    """Sub-words of all texts of a sample, of both sides of pairs together; or a tokenizer.json that is given."""
    if c.tokenizer not in TOKENIZERS:
        path = Path(c.tokenizer)
        if path.suffix != ".json":
            raise InputError(f"unknown tokenizer {c.tokenizer!r}; give {' or '.join(TOKENIZERS)}, or a tokenizer.json")
        return Tokenizer.load(path)
    texts = (text for pair in sample for text in pair)
    return Tokenizer.train(texts, kind=c.tokenizer, vocab_size=c.vocab_size)


@dataclass(frozen=True)
class Prepared:
    """Shards to train on, and the validation pairs as text and as shards."""

    train: Corpus
    valid: Corpus
    valid_pairs: Pairs
    written: Written


def write(folder: Path, source: Source, survey: Survey, tokenizer: Tokenizer, c: DataConfig, tick: Tick) -> Prepared:
    """Encode everything. Without validation files, pairs are held out by a digest of their source sentence: all pairs
    of one source fall on the same side, and the same ones in every run."""
    count = survey.report.kept
    valid = list(survey.valid)
    threshold = survey.threshold(c.held_out)
    if not valid and len(survey.lots) < 2:
        raise InputError(f"all {count} pairs have the same source, so that none can be held out; give --valid files")

    def training() -> Iterator[tuple[str, str]]:
        for pair in source.training_pairs(Report()):
            if lot("valid", pair[0]) <= threshold:
                valid.append(pair)
            else:
                yield pair

    written = write_shards(folder / "train", training(), tokenizer, count=count, max_length=c.max_length, progress=tick)
    try:
        write_shards(folder / "valid", valid, tokenizer, count=len(valid), max_length=c.max_length)
    except InputError as error:
        raise InputError(f"the validation pairs: {error}") from None
    opened = [Corpus.open(folder / name, tokenizer.fingerprint) for name in ("train", "valid")]
    return Prepared(opened[0], opened[1], valid, written)


def lot(purpose: str, text: str) -> float:
    """A number from 0 to 1 that depends on the text alone; other purposes draw other lots."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=purpose.encode()).digest()) / 2**64


class Smallest:
    """The `most` smallest different numbers of a stream."""

    def __init__(self, most: int) -> None:
        self.most, self.kept, self.heap = most, set[float](), list[float]()

    def add(self, number: float) -> None:
        if number in self.kept or (len(self.heap) == self.most and number >= -self.heap[0]):
            return
        self.kept.add(number)
        heapq.heappush(self.heap, -number)
        if len(self.heap) > self.most:
            self.kept.remove(-heapq.heappop(self.heap))

    def sorted(self) -> list[float]:
        return sorted(self.kept)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
