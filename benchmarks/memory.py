"""Peak memory against corpus size: a corpus is prepared and one epoch of it read, each size in a process of its own.

    python benchmarks/memory.py --pairs 100000 1000000 5000000
    python benchmarks/memory.py --text 10 30 100
    python benchmarks/memory.py --pairs 20000000 --workers 2

A file is surveyed, sub-words are learned of a sample and all of it is encoded, as `qkv train` does it, by as many
processes as `--workers`; then one epoch is read. Pairs are read in batches of like lengths: memory grows until one
shard is full (262144 pairs) and must then stay flat. `--text` is running text, of so many megabytes, read in windows;
here too memory must stay flat, and the exit code is 1 where it does not. Memory is that of the process that reads and
writes; those that encode beside it have a column of their own. The last column is the ratio of the peak to that of the
first size.
"""

import argparse
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from figures import megabytes, table
from qkv.data import Buckets, Stream
from qkv.tasks import Corpus, Survey, Task
from qkv.tasks.corpus import learn_tokenizer
from qkv.tasks.language_model import LanguageModel, LanguageModelConfig
from qkv.tasks.translation import PairsConfig, Translate

SYLLABLES = ["ka", "lo", "mi", "ren", "tus", "ve", "shi", "dor", "pa", "nel", "go", "bri", "ja", "zum", "fe", "ti"]
VOCABULARY, WINDOW = 4000, 256
FLAT = 1.25  # times the memory of the first size, at the most

Found = dict[str, float]
Prepared = Iterator[tuple[Stream, int] | None]  # nothing, when all is ready; then a stream and its rows


def sentences(seed: int) -> Iterator[tuple[str, str]]:
    """Pairs of made-up sentences, 7 to 23 words each, drawn from 4096 words that Zipf's law makes rare or frequent. The
    first three words of a source are its number, so that no two are alike."""
    rng = random.Random(seed)
    words = ["".join(parts) for parts in itertools.product(SYLLABLES, repeat=3)]
    rng.shuffle(words)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    some = []
    for _ in range(20_000):
        length = rng.randint(4, 20)
        drawn = rng.choices(words, cum_weights=weights, k=2 * length)
        some.append((" ".join(drawn[:length]), " ".join(drawn[length:])))
    for number, (source, target) in enumerate(itertools.cycle(some)):
        yield f"{words[number % 4096]} {words[number // 4096 % 4096]} {words[number // 4096**2]} {source}", target


def pairs(count: int, tokens: int, place: Path, workers: int) -> Prepared:
    """Ready; and then with so many pairs prepared."""
    file = place / "pairs.tsv"
    with file.open("w", encoding="ascii") as lines:
        lines.writelines(f"{source}\t{target}\n" for source, target in itertools.islice(sentences(seed=2), count))
    yield
    how = {"vocab_size": VOCABULARY, "batch_tokens": tokens, "source": "en", "target": "de"}
    task = Translate(PairsConfig(**how))
    corpus = prepared(task, file, workers)
    yield Buckets(corpus.train, tokens=tokens, seed=0, sizes=Translate.sizes), len(corpus.train)


def text(size: int, tokens: int, place: Path, workers: int) -> Prepared:
    """Ready; and then with so many megabytes of text prepared."""
    file, left = place / "text.txt", size * 10**6
    with file.open("w", encoding="ascii") as lines:
        for line in itertools.chain.from_iterable(sentences(seed=2)):
            if left <= 0:
                break
            left -= lines.write(f"{line}.\n")
    yield
    task = LanguageModel(LanguageModelConfig(vocab_size=VOCABULARY, batch_tokens=tokens, window=WINDOW))
    windows = task.windows(prepared(task, file, workers).train, WINDOW)
    yield windows, (len(windows) - 1) // WINDOW


def prepared(task: Task, file: Path, workers: int) -> Corpus:
    survey = Survey(task, {"train": [file], "valid": [], "test": []}, file.parent, lambda _: None)
    tokenizer = learn_tokenizer(task.data, survey.sample)
    facts = task.facts(survey, tokenizer)
    return Corpus.write(file.parent / "corpus", task, survey, tokenizer, facts, lambda _: None, workers)


KINDS = {"pairs": pairs, "text": text}


def measure(kind: str, count: int, tokens: int, workers: int) -> Found:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        steps = KINDS[kind](count, tokens, Path(folder), workers)
        next(steps)
        begin, start, cpu = megabytes(), time.perf_counter(), sum(os.times()[:4])
        batches, expected = next(steps)
        done = {"begin": begin, "write": megabytes(), "write_s": time.perf_counter() - start}
        done |= {"beside": megabytes(resource.RUSAGE_CHILDREN), "cpu_s": sum(os.times()[:4]) - cpu}
        start = time.perf_counter()
        rows = sum(len(batch) for batch, _ in itertools.islice(batches.stream(), batches.count(0)))
    if rows != expected:
        raise SystemExit(f"{rows} rows were read where {expected} were written")
    epoch_s = time.perf_counter() - start
    return {**done, "read": megabytes(), "epoch_s": epoch_s, "us": epoch_s / batches.count(0) * 1e6}


def measure_apart(kind: str, count: int, tokens: int, workers: int) -> Found:
    """The same in a process of its own, since a peak is never forgotten."""
    command = [sys.executable, __file__, "--child", f"--{kind}", str(count), "--tokens", str(tokens)]
    command += ["--workers", str(workers)]
    found: Found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def tell(kind: str, unit: str, sizes: list[int], tokens: int, workers: int) -> float:
    """Prints the table of one kind; the last size's peak by that of the first."""
    peaks: list[float] = []
    rows = []
    for count in sizes:
        found = measure_apart(kind, count, tokens, workers)
        peaks.append(found["read"])
        held = [f"{found[moment]:,.0f} MB" for moment in ("begin", "write", "read", "beside")]
        times = [f"{found[what]:.1f} s" for what in ("write_s", "cpu_s", "epoch_s")] + [f"{found['us']:,.0f} us"]
        speed = f"{count / found['write_s']:,.1f}" if kind == "text" else f"{count / found['write_s']:,.0f}"
        rows.append([f"{count:,}", *held, *times, speed, f"{peaks[-1] / peaks[0]:.2f}"])
    print(f"\n### Data preparation by corpus size, {kind}, workers: {workers}\n")
    head = ["at the start", "written", "and read", "each worker", "writing", "of processors", "epoch", "a batch"]
    head += [f"{unit}/s written", "ratio"]
    print(table([unit, *head], rows))
    return peaks[-1] / peaks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory while a corpus is prepared and read, by its size.")
    parser.add_argument("--pairs", type=int, nargs="*", default=[])
    parser.add_argument("--text", type=int, nargs="*", default=[], help="megabytes of running text")
    parser.add_argument("--tokens", type=int, default=4096, help="the budget of a batch")
    parser.add_argument("--workers", type=int, default=1, help="processes that encode")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        kind = "pairs" if asked.pairs else "text"
        print(json.dumps(measure(kind, *getattr(asked, kind), asked.tokens, asked.workers)))
        return
    if not asked.pairs and not asked.text:
        asked.pairs, asked.text = [100_000, 1_000_000, 5_000_000], [10, 30, 100]
    if asked.pairs:
        tell("pairs", "pairs", asked.pairs, asked.tokens, asked.workers)
    if asked.text:
        growth = tell("text", "MB", asked.text, asked.tokens, asked.workers)
        verdict = "is flat" if growth <= FLAT else "grows"
        print(f"\nmemory {verdict}: {growth:.2f} times from the first size to the last")
        raise SystemExit(int(growth > FLAT))


if __name__ == "__main__":
    main()
