"""From files of pairs to a tokenizer and shards: read, examined, encoded, and never twice."""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qkv.data import Corpus, Written, write_shards
from qkv.errors import InputError
from qkv.text import read_pairs
from qkv.text.doctor import Report, Rules, examine, fail_if_unusable
from qkv.text.tokenizer import TOKENIZERS, Tokenizer
from qkv.training.settings import DataConfig

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
        valid = self.pairs(self.valid, valid_report) if self.valid else []
        test = self.pairs(self.test, Report()) if self.test else []
        if self.valid:
            fail_if_unusable(valid_report, minimum=1)
        self.held_out = {source for source, _ in valid} | {source for source, _ in test}
        survey = Survey(report, valid, valid_report)
        rng = random.Random(0)
        for number, pair in enumerate(self.training_pairs(report)):
            survey.characters += len(pair[0]) + len(pair[1])
            if number < SAMPLE:
                survey.sample.append(pair)
            elif (slot := rng.randrange(number + 1)) < SAMPLE:
                survey.sample[slot] = pair
            if number % 1000 == 0:
                tick(number)
        fail_if_unusable(report)
        survey.files = {str(path): digest(path) for path in [*self.train, *self.valid, *self.test]}
        return survey

    def training_pairs(self, report: Report) -> Iterator[tuple[str, str]]:
        read = read_pairs(self.train, source=self.source, target=self.target, skipped=report.skipped)
        for pair in examine(read, self.rules, report, self.held_out):
            yield pair.source, pair.target

    def pairs(self, paths: list[Path], report: Report) -> Pairs:
        read = read_pairs(paths, source=self.source, target=self.target, skipped=report.skipped)
        lenient = Rules(drop_copies=False, max_ratio=self.rules.max_ratio, max_characters=self.rules.max_characters)
        return [(pair.source, pair.target) for pair in examine(read, lenient, report)]


def learn_tokenizer(c: DataConfig, sample: Pairs) -> Tokenizer:
    """Sub-words of both sides together; or a tokenizer.json that is given."""
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
    share = 0.0 if valid else min(c.held_out / count, 0.1)

    def training() -> Iterator[tuple[str, str]]:
        for pair in source.training_pairs(Report()):
            if share and lot(pair[0]) < share:
                valid.append(pair)
            else:
                yield pair

    written = write_shards(folder / "train", training(), tokenizer, count=count, max_length=c.max_length, progress=tick)
    if not valid:
        raise InputError(f"no pair of {count} fell to validation; give --valid files")
    if not written.pairs:
        raise InputError(f"all {count} pairs are longer than {c.max_length} tokens; raise --data.max-length")
    kept = write_shards(folder / "valid", valid, tokenizer, count=len(valid), max_length=c.max_length)
    if not kept.pairs:
        raise InputError(
            f"all {len(valid)} validation pairs are longer than {c.max_length} tokens; raise --data.max-length"
        )
    opened = [Corpus.open(folder / name, tokenizer.fingerprint) for name in ("train", "valid")]
    return Prepared(opened[0], opened[1], valid, written)


def lot(text: str) -> float:
    """A number from 0 to 1 that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"qkv-valid").digest()) / 2**64


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
