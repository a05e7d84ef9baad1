"""Peak memory against corpus size: shards are written and one epoch of batches is read, each size in its own process.

    python benchmarks/memory.py --pairs 100000 1000000 5000000

Memory grows until one shard is full (262144 pairs) and must then stay flat: the last column is the ratio of the peak
to that of the first size.
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
from qkv.data import Buckets
from qkv.tasks.translation import Translate
from qkv.text.tokenizer import Tokenizer

SYLLABLES = ["ka", "lo", "mi", "ren", "tus", "ve", "shi", "dor", "pa", "nel", "go", "bri", "ja", "zum", "fe", "ti"]


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


def measure(count: int, tokens: int) -> dict[str, float]:
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train((text for pair in sentences(10_000, seed=1) for text in pair), vocab_size=4000)
    begin = megabytes()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        corpus = written(Path(folder) / "corpus", sentences(count, seed=2), tokenizer, count=count)
        done = {"begin": begin, "write": megabytes(), "write_s": time.perf_counter() - start}
        start = time.perf_counter()
        batches = Buckets(corpus, tokens=tokens, seed=0, sizes=Translate.sizes)
        rows = sum(len(batch) for batch, _ in itertools.islice(batches.stream(), batches.count(0)))
    if rows != len(corpus):
        raise SystemExit(f"{rows} rows were read and {len(corpus)} pairs were written")
    epoch_s = time.perf_counter() - start
    return {**done, "read": megabytes(), "epoch_s": epoch_s, "us": epoch_s / batches.count(0) * 1e6}


def measure_apart(count: int, tokens: int) -> dict[str, float]:
    """The same in a process of its own, since a peak is never forgotten."""
    command = [sys.executable, __file__, "--child", "--pairs", str(count), "--tokens", str(tokens)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory while shards are written and read, by corpus size.")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--tokens", type=int, default=4096, help="the budget of a batch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measure(asked.pairs[0], asked.tokens)))
        return
    rows, first = [], 0.0
    for count in asked.pairs:
        found = measure_apart(count, asked.tokens)
        first = first or found["read"]
        peaks = [f"{found[moment]:,.0f} MB" for moment in ("begin", "write", "read")]
        times = [f"{found['write_s']:.1f} s", f"{found['epoch_s']:.1f} s", f"{found['us']:,.0f} us"]
        speed = f"{count / found['write_s']:,.0f}"
        rows.append([f"{count:,}", *peaks, *times, speed, f"{found['read'] / first:.2f}"])
    print("\n### Data preparation by corpus size\n")
    head = ["pairs", "at the start", "written", "and read", "writing", "epoch", "a batch", "pairs/s written", "ratio"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
