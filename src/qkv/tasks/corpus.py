"""A corpus: the files of a run, read and examined once, as rows of ids to train on and to validate on."""

import hashlib
import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from qkv import manifest
from qkv.config import Tree, parse_call, to_tree
from qkv.convert import adopt
from qkv.data import Counts, GoingOn, PackedRows, RowsOnDisk, write_packed, write_rows
from qkv.errors import InputError, nearest
from qkv.files import digest, read_json, replacing, write_json
from qkv.folder import About
from qkv.tasks.encoding import encoded
from qkv.tasks.spool import LAYOUT, Spool, Spooled, chunked, line_of
from qkv.text.lines import check_file
from qkv.text.tables import examples_in
from qkv.text.tokenizer import TOKENIZERS, Tokenizer

MOST_HASHES = 100_000  # ten times what a run can hold out: to say what one in ten is, no more need be known
LARGE = 5 * 10**7  # letters of a corpus that several processes encode: to start them takes seconds
DRAFTS = ".drafts.part"  # beside a corpus: what is encoded of it so far
SEALED = ("corpus.json", "tokenizer.json", "valid.jsonl", "train/index.json", "valid/index.json")  # which has the rest
MEMORY = "examples in memory"  # what stands for a file's name where there is none

Tick = Callable[[int], None]
Part = Sequence[Path] | Iterable[Any]  # files, or examples
PARTS = ("train", "valid", "test")


@dataclass
class Found:
    """What examining some examples has come to: how many were read and kept; for people, what was dropped and why."""

    read: int = 0
    kept: int = 0
    findings: list[str] = field(default_factory=list)


class Survey:
    """One reading of everything a run is given: examined, counted, kept in spools; memory does not grow with it."""

    def __init__(self, task: Any, parts: Mapping[str, Part], place: Path, tick: Tick) -> None:
        self.task = task
        self.train, self.valid = (Spool(task.example_class, place) for _ in range(2))
        self.digests: dict[str, str] = {}
        self.sample: list[tuple[str, ...]] = []  # texts from which sub-words are learned, drawn from the whole
        self.characters = 0
        self.found: dict[str, Found] = {}
        self.has_valid, held_out = is_given(parts["valid"]), set[str]()
        if are_files(parts["train"]):
            task.look(checked(parts["train"]))
        for name in ("valid", "test"):
            for example in self.examined(name, parts[name], held_out=()):
                held_out.add(task.key(example))
                if name == "valid":
                    self.valid.add(example)
        if self.has_valid and not self.valid:
            raise InputError(f"no example to validate on is left of {self.found['valid'].read:,}; give others")
        hashes, most, rng = set[float](), 1.0, random.Random(0)
        for number, example in enumerate(self.examined("train", parts["train"], held_out)):
            texts = tuple(task.texts(example))
            letters = sum(map(len, texts))
            found = 1.0 if self.has_valid else hashed("valid", task.key(example))
            self.train.add(example, letters, found)
            if len(self.sample) < task.sample and self.characters <= task.sample_letters:
                self.sample.append(texts)
            elif (slot := int(rng.random() * (number + 1))) < len(self.sample):
                self.sample[slot] = texts
            self.characters += letters
            if found <= most:
                hashes.add(found)
            if len(hashes) == 2 * MOST_HASHES:
                hashes = set(sorted(hashes)[:MOST_HASHES])
                most = max(hashes)
            if number % 1000 == 0:
                tick(number)
        if not self.train:
            raise InputError(f"no example to train on is left of {self.found['train'].read:,}; give others")
        self.hashes = sorted(hashes)[:MOST_HASHES]

    def examined(self, name: str, part: Part, held_out: Any) -> Iterator[Any]:
        """The good examples of a part; what was wrong with the others is in `found` afterwards."""
        self.found[name] = Found()
        if is_given(part):
            yield from self.task.examine(self.read(name, part), held_out, self.found[name], name)

    def read(self, name: str, part: Part) -> Iterator[Any]:
        if are_files(part):
            self.digests |= {str(path): digest(path, "blake2b")[:32] for path in checked(part)}
            yield from self.task.read(part)
            return
        seen = hashlib.blake2b(digest_size=16)
        names = {field: [field, self.task.also_called.get(field, field)] for field in self.task.fields}
        for number, given in enumerate(examples_in(part, names, self.task.shape), start=1):
            example = self.task.from_memory(given, f"{name} example {number}")
            seen.update(repr(example).encode())
            yield example
        self.digests[f"{MEMORY}: {name}"] = seen.hexdigest()

    def threshold(self, held_out: int) -> float:
        """Examples whose key is hashed to at most this are held out: `held_out` keys, one in ten at the most."""
        if len(self.hashes) < 2:
            raise InputError(
                f"all {len(self.train)} examples have the same {self.task.key_is}, so that none can be held out; "
                "give --valid files"
            )
        return self.hashes[min(held_out, max(1, len(self.hashes) // 10)) - 1]


def is_given(part: Part) -> bool:
    return not (isinstance(part, Sequence) and not part)


def are_files(part: Any, named_by: Any = Path) -> TypeGuard[Sequence[Path]]:
    return isinstance(part, list | tuple) and bool(part) and all(isinstance(one, named_by) for one in part)


def checked(paths: Sequence[Path]) -> Sequence[Path]:
    """Files that are there and can be read."""
    for path in paths:
        check_file(path)
    return paths


class Scale(NamedTuple):
    """What suits a corpus of some size on some machine, where a person asks for nothing else."""

    vocabulary: int
    preset: str
    dropout: float
    tokens: int  # in a batch
    epochs: int
    window: int = 0

    def settings(self, characters: int, steps: int, training: Any, rates: Mapping[str, float], floor: str = "") -> Tree:
        """For an epoch of about so many steps; `training` has the limits that are given."""
        whole = min(self.epochs, training.epochs or self.epochs) * steps
        warmup = min(400, max(10, int(min(whole, training.steps or whole)) // 10))  # a tenth of the run, 400 at most
        epochs = 0.0 if training.steps or training.epochs or training.minutes else float(self.epochs)
        # A vocabulary cannot be larger than the text has room for: about one new sub-word in 20 characters.
        vocabulary, schedule = max(400, min(self.vocabulary, characters // 20)), f"cosine(warmup={warmup}{floor})"
        return {
            "data": {"vocab_size": vocabulary, "batch_tokens": self.tokens},
            "model": {"preset": self.preset, "dropout": self.dropout},
            "training": {"learning_rate": rates[self.preset], "schedule": schedule, "epochs": epochs},
        }


def learn_tokenizer(
    c: Any, sample: Iterable[Iterable[str]], start: Tokenizer | None = None, specials: Sequence[str] = ()
) -> Tokenizer:
    """Sub-words of all texts of a sample, of both sides of pairs together; or a tokenizer.json that is given; or those
    of the model to start from, perhaps with some more."""
    texts = chain.from_iterable(sample)
    if start is not None:
        return start.grow(texts, len(start) + c.grow) if c.grow else start
    if (path := Path(c.tokenizer)).name == "tokenizer.json" and path.exists():
        return adopt(path.parent, extra=specials)[0]  # perhaps other people's
    if path.suffix == ".json":
        return Tokenizer.load(path)
    if (name := parse_call(c.tokenizer, TOKENIZERS)[0]) not in TOKENIZERS:
        raise InputError(f"unknown tokenizer {name!r}, and no tokenizer.json; {nearest(name, TOKENIZERS)}")
    return Tokenizer.train(texts, kind=c.tokenizer, vocab_size=c.vocab_size, specials=specials)


class Corpus:
    """A folder of rows with their tokenizer, what the model must remember of the data, and what was found in it."""

    def __init__(self, folder: Path, tree: Tree) -> None:
        self.folder = folder
        self.facts: About = tree["facts"]
        self.digests: dict[str, str] = tree["digests"]
        self.tokenizer = Tokenizer.load(folder / "tokenizer.json")

    @cached_property
    def train(self) -> RowsOnDisk:
        return RowsOnDisk.open(self.folder / "train", self.tokenizer.fingerprint)

    @cached_property
    def valid(self) -> RowsOnDisk:
        return RowsOnDisk.open(self.folder / "valid", self.tokenizer.fingerprint)

    @classmethod
    def open(cls, folder: Path) -> "Corpus":
        manifest.check(folder)
        try:
            return cls(folder, read_json(folder / "corpus.json"))
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{folder} holds no corpus that this qkv can read; begin anew with --restart, or give a new --out"
            ) from None

    @classmethod
    def write(
        cls, folder: Path, task: Any, survey: Survey, tokenizer: Tokenizer, facts: About, tick: Tick, workers: int = 1
    ) -> "Corpus":
        """Encode everything. Without validation files, some examples are held out: those whose keys are hashed lowest,
        so that all of one key fall on the same side, and the same ones in every run. A large corpus is encoded by as
        many processes as `workers`; what a process that was killed had encoded of it need not be encoded again."""
        if not survey.has_valid:  # a survey may be written more than once
            survey.valid = Spool(task.example_class, folder.parent)
        valid = survey.valid
        how: Tree = {
            "columns": task.columns, "vocab_size": len(tokenizer), "fingerprint": tokenizer.fingerprint,
            "unique": task.unique, "in_order": task.in_order,
        }  # fmt: skip
        going_on = None
        if is_large := survey.characters > LARGE:
            key = [LAYOUT, task.name, task.model.__name__, to_tree(task.data), facts, survey.digests, how]
            named = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()
            going_on = GoingOn(folder.parent / DRAFTS, named, task.tallies)
        with replacing(folder) as partial:
            partial.mkdir(parents=True)
            tokenizer.save(partial / "tokenizer.json")
            chunks = survey.train.chunks()
            if not survey.has_valid:
                chunks = task.parted(chunks, survey, valid.add)
            if task.data.limit:
                few = drawn(task, chain.from_iterable(chunk.examples() for chunk in chunks))
                chunks = (Spooled.of(task.example_class, some) for some in chunked(few, task.texts))

            def packed(done: int, counts: Counts) -> Iterator[PackedRows]:
                for name, tally in task.tallies().items():
                    tally.update(counts.get(name, {}))
                left = islice(chunks, done, None)
                return encoded(task, left, tokenizer, facts, workers if is_large else 1)

            write_packed(partial / "train", packed, count=len(survey.train), progress=tick, going_on=going_on, **how)
            try:
                rows = task.rows(valid, tokenizer, facts)
                write_rows(partial / "valid", rows, count=len(valid), longest=task.longest, **how)
            except InputError as error:
                raise InputError(f"to validate: {error}") from None
            with (partial / "valid.jsonl").open("wb") as file:
                file.writelines(map(line_of, valid))
            write_json(partial / "corpus.json", {"facts": facts, "digests": survey.digests})
            manifest.seal(partial, SEALED)
        return cls.open(folder)

    def valid_examples(self, kind: type[Any], most: int | None = None) -> list[Any]:
        """The first examples to validate on, as they were read."""
        with (self.folder / "valid.jsonl").open(encoding="utf-8") as file:
            return [kind(*json.loads(line)) for line in islice(file, most)]


def drawn(task: Any, examples: Iterable[Any]) -> list[Any]:
    """As many examples as the settings allow, drawn by the seed, in their order."""
    purpose = f"draw {task.data.seed % 10**9}"
    ranked = ((hashed(purpose, task.key(example)), number, example) for number, example in enumerate(examples))
    chosen = heapq.nsmallest(task.data.limit, ranked, key=lambda one: one[:2])
    return [example for _, _, example in sorted(chosen, key=lambda one: one[1])]


def hashed(purpose: str, text: str) -> float:
    """A number from 0 to 1 that depends on the text alone; each purpose has numbers of its own."""
    mine = begun(purpose).copy()
    mine.update(text.encode())
    return int.from_bytes(mine.digest()) / 2**64


@cache
def begun(purpose: str) -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=8, person=purpose.encode())
