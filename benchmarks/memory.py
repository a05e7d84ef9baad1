"""Peak memory against corpus size: a corpus is prepared and one epoch of it read, each size in a process of its own.

    python benchmarks/memory.py --pairs 100000 1000000 5000000
    python benchmarks/memory.py --text 10 30 100

Pairs are written as shards and read in batches of like lengths: memory grows until one shard is full (262144 pairs) and
must then stay flat. `--text` is running text, of so many megabytes: the task `language_model` surveys the file, learns
sub-words of a sample (byte_bpe) and encodes it, and windows are read through; here too memory must stay flat, and the
exit code is 1 where it does not. The last column is the ratio of the peak to that of the first size.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from corpus import written
from figures import megabytes, table
from qkv.data import Buckets, Stream
from qkv.tasks import Corpus, Survey
from qkv.tasks.corpus import learn_tokenizer
from qkv.tasks.language_model import LanguageModel, RunningTextConfig
from qkv.tasks.translation import Translate
from qkv.text.tokenizer import Tokenizer

SYLLABLES = ["ka", "lo", "mi", "ren", "tus", "ve", "shi", "dor", "pa", "nel", "go", "bri", "ja", "zum", "fe", "ti"]
VOCABULARY, WINDOW = 4000, 256
FLAT = 1.25  # times the memory of the first size, at the most

Found = dict[str, float]
Prepared = Iterator[tuple[Stream, int] | None]  # nothing, when all is ready; then a stream and its rows


def sentences(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Pairs of made-up sentences, 4 to 20 words each, drawn from 4096 words that Zipf's law makes rare or frequent."""
    rng = random.Random(seed)
    words = ["".join(parts) for parts in itertools.product(SYLLABLES, repeat=3)]
    rng.shuffle(words)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for _ in range(count):
        length = rng.randint(4, 20)
        drawn = rng.choices(words, cum_weights=weights, k=2 * length)
        yield " ".join(drawn[:length]), " ".join(drawn[length:])


def pairs(count: int, tokens: int, place: Path) -> Prepared:
    """Ready; and then with so many pairs written."""
    tokenizer = Tokenizer.train((text for pair in sentences(10_000, seed=1) for text in pair), vocab_size=VOCABULARY)
    yield
    corpus = written(place / "corpus", sentences(count, seed=2), tokenizer, count=count)
    yield Buckets(corpus, tokens=tokens, seed=0, sizes=Translate.sizes), len(corpus)


def text(size: int, tokens: int, place: Path) -> Prepared:
    """Ready; and then with so many megabytes of text prepared, as `qkv train` does it."""
    file, left = place / "text.txt", size * 10**6
    with file.open("w", encoding="ascii") as lines:
        for line in itertools.chain.from_iterable(sentences(left, seed=2)):
            if left <= 0:
                break
            left -= lines.write(f"{line}.\n")
    yield
    task = LanguageModel(RunningTextConfig(vocab_size=VOCABULARY, batch_tokens=tokens, window=WINDOW))
    survey = Survey(task, {"train": [file], "valid": [], "test": []}, place, lambda _: None)
    tokenizer = learn_tokenizer(task.data, survey.sample)
    corpus = Corpus.write(place / "corpus", task, survey, tokenizer, task.facts(survey, tokenizer), lambda _: None)
    windows = task.windows(corpus.train, WINDOW)
    yield windows, (len(windows) - 1) // WINDOW


KINDS = {"pairs": pairs, "text": text}


def measure(kind: str, count: int, tokens: int) -> Found:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        prepared = KINDS[kind](count, tokens, Path(folder))
        next(prepared)
        begin, start = megabytes(), time.perf_counter()
        batches, expected = next(prepared)
        done = {"begin": begin, "write": megabytes(), "write_s": time.perf_counter() - start}
        start = time.perf_counter()
        rows = sum(len(batch) for batch, _ in itertools.islice(batches.stream(), batches.count(0)))
    if rows != expected:
        raise SystemExit(f"{rows} rows were read where {expected} were written")
    epoch_s = time.perf_counter() - start
    return {**done, "read": megabytes(), "epoch_s": epoch_s, "us": epoch_s / batches.count(0) * 1e6}


def measure_apart(kind: str, count: int, tokens: int) -> Found:
    """The same in a process of its own, since a peak is never forgotten."""
    command = [sys.executable, __file__, "--child", f"--{kind}", str(count), "--tokens", str(tokens)]
    found: Found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def tell(kind: str, unit: str, sizes: list[int], tokens: int) -> float:
    """Prints the table of one kind; the last size's peak by that of the first."""
    peaks: list[float] = []
    rows = []
    for count in sizes:
        found = measure_apart(kind, count, tokens)
        peaks.append(found["read"])
        held = [f"{found[moment]:,.0f} MB" for moment in ("begin", "write", "read")]
        times = [f"{found['write_s']:.1f} s", f"{found['epoch_s']:.1f} s", f"{found['us']:,.0f} us"]
        speed = f"{count / found['write_s']:,.1f}" if kind == "text" else f"{count / found['write_s']:,.0f}"
        rows.append([f"{count:,}", *held, *times, speed, f"{peaks[-1] / peaks[0]:.2f}"])
    print(f"\n### Data preparation by corpus size, {kind}\n")
    head = ["at the start", "written", "and read", "writing", "epoch", "a batch", f"{unit}/s written", "ratio"]
    print(table([unit, *head], rows))
    return peaks[-1] / peaks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory while a corpus is prepared and read, by its size.")
    parser.add_argument("--pairs", type=int, nargs="*", default=[])
    parser.add_argument("--text", type=int, nargs="*", default=[], help="megabytes of running text")
    parser.add_argument("--tokens", type=int, default=4096, help="the budget of a batch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        kind = "pairs" if asked.pairs else "text"
        print(json.dumps(measure(kind, *getattr(asked, kind), asked.tokens)))
        return
    if not asked.pairs and not asked.text:
        asked.pairs, asked.text = [100_000, 1_000_000, 5_000_000], [10, 30, 100]
    if asked.pairs:
        tell("pairs", "pairs", asked.pairs, asked.tokens)
    if asked.text:
        growth = tell("text", "MB", asked.text, asked.tokens)
        verdict = "is flat" if growth <= FLAT else "grows"
        print(f"\nmemory {verdict}: {growth:.2f} times from the first size to the last")
        raise SystemExit(int(growth > FLAT))


if __name__ == "__main__":
    main()
