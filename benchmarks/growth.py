"""How speed changes with size: training and decoding of qkv and a peer, and data preparation, as one size grows.

    python benchmarks/growth.py --preset small --rounds 3

One size changes, the others stay: sentences of 16 tokens, batches of 4,096, a vocabulary of 8,000. Training has random
sentences of one length, so that there is no padding; its peer is Hugging Face's Marian, in float32. Decoding is the
latency of one request on one thread, greedy; its peers are CTranslate2's two modes. All take turns. The ratio says how
the speed at a size compares with that at the first of its kind: 1.00 is no change. Attention grows with the square of
the length and the rest of the model with the length, so tokens a second must fall with the length; they should rise
with the batch, until the machine is full.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import train
from apart import Contestant, contestants, race
from corpus import VOCABULARY, even_batch
from figures import arguments, by_turns, show, spread, table
from machine import facts
from memory import measure_apart
from qkv.models import PRESETS
from writers import Writer, sentences, writers

LENGTH, TOKENS = 16, 4096  # what stays, where another size changes
LENGTHS, BATCHES, VOCABULARIES = [8, 16, 32, 64, 128], [512, 1024, 4096, 8192], [2000, 8000, 32000]
REQUESTS, WRITTEN = [1, 4, 16, 64], [8, 16, 32, 64, 128]  # sentences, and tokens of each
PAIRS = [100_000, 1_000_000, 5_000_000]

Rows = list[dict[str, Any]]


def train_speed(who: list[Contestant], asked: argparse.Namespace, length: int, tokens: int, vocabulary: int) -> Rows:
    """Target tokens a second on one shape of batch."""
    sizes = {**PRESETS[asked.preset], "vocab_size": vocabulary, "norm": "pre", "max_length": 256}
    batch = even_batch(tokens, length, vocabulary)
    some = [batch] * max(1, 4096 // tokens)
    seconds, _ = race(train.__file__, sizes, who, [batch, *some], asked.rounds, torch.get_num_threads())
    count = train.target_tokens(some)
    return [{"who": name, "speed": count / median(taken), "spread": spread(taken)} for name, taken in seconds.items()]


def training(asked: argparse.Namespace) -> Rows:
    who = contestants(["float32"], ["marian"]) + contestants(["bfloat16"], [])
    kinds: dict[str, list[tuple[int, int, int]]] = {
        "sentence length": [(length, TOKENS, VOCABULARY) for length in asked.lengths],
        "batch tokens": [(LENGTH, tokens, VOCABULARY) for tokens in asked.batches],
        "vocabulary": [(LENGTH, TOKENS, size) for size in asked.vocabularies],
    }
    rows: Rows = []
    for place, (kind, shapes) in enumerate(kinds.items()):
        for shape in shapes:
            found = train_speed(who, asked, *shape)
            rows += [{"of": "training", "grows": kind, "size": shape[place], **row} for row in found]
    return rows


def write_speed(everyone: list[Writer], count: int, tokens: int, rounds: int) -> Rows:
    """Tokens a second of one request: so many sentences of so many source tokens, and as many written."""
    src = sentences(count, tokens, tokens)
    runs = {}
    for who in everyone:
        runs[f"{who.name} {who.precision}"] = partial(who.write, who.ready(src), 1, tokens)
    for run in runs.values():
        run()
    seconds = by_turns(runs, rounds)
    speeds = {name: count * tokens / median(taken) for name, taken in seconds.items()}
    return [{"who": name, "speed": speeds[name], "spread": spread(seconds[name])} for name in seconds]


def decoding(asked: argparse.Namespace) -> Rows:
    torch.set_num_threads(1)
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        everyone = [who for who in writers(asked.preset, 1, Path(folder))[1] if who.name != "Hugging Face"]
        for tokens in asked.written:
            found = write_speed(everyone, 1, tokens, asked.rounds)
            rows += [{"of": "decoding", "grows": "sentence length", "size": tokens, **row} for row in found]
        for count in asked.requests:
            found = write_speed(everyone, count, LENGTH, asked.rounds)
            rows += [{"of": "decoding", "grows": "sentences at once", "size": count, **row} for row in found]
    return rows


def preparing(asked: argparse.Namespace) -> Rows:
    """Pairs a second while shards are written, and the peak memory of doing so."""
    rows: Rows = []
    for count in asked.pairs:
        found = measure_apart("pairs", count, 4096)
        who, speed = f"qkv, {found['read']:,.0f} MB at its peak", count / found["write_s"]
        rows.append({"of": "data", "grows": "pairs", "size": count, "who": who, "speed": speed, "spread": 0.0})
    return rows


def tell(found: dict[str, Any]) -> None:
    print(f"\n### {found['preset']}, growth\n")
    print(f"{found['rounds']} rounds; {found['threads']} threads in training, one in decoding; {found['machine']}\n")
    first: dict[tuple[str, ...], float] = {}
    lines = []
    for row in found["rows"]:
        kind = (row["of"], row["grows"], row["who"].partition(",")[0])
        ratio = row["speed"] / first.setdefault(kind, row["speed"])
        lines.append([row["of"], row["grows"], f"{row['size']:,}", row["who"], f"{row['speed']:,.0f}",
                      f"{row['spread']:.0%}", f"{ratio:.2f}"])  # fmt: skip
    print(table(["of", "what grows", "size", "who", "tokens or pairs/s", "spread", "to the first"], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed against sentence length, batch, vocabulary and corpus.")
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="of sentences, in training")
    parser.add_argument("--batches", type=int, nargs="*", default=BATCHES, help="tokens of a batch")
    parser.add_argument("--vocabularies", type=int, nargs="*", default=VOCABULARIES)
    parser.add_argument("--written", type=int, nargs="*", default=WRITTEN, help="tokens of a sentence, in decoding")
    parser.add_argument("--requests", type=int, nargs="*", default=REQUESTS, help="sentences at once, in decoding")
    parser.add_argument("--pairs", type=int, nargs="*", default=PAIRS, help="of a corpus")
    asked = arguments(parser, rounds=3, threads=torch.get_num_threads(), use="for training")
    rows = preparing(asked)  # first: a child's peak begins at ours
    torch.set_num_threads(asked.threads)
    found: dict[str, Any] = {
        "preset": asked.preset,
        "rounds": asked.rounds,
        "threads": asked.threads,
        "machine": facts(),
    }
    found["rows"] = training(asked) + decoding(asked) + rows
    show(found, tell, as_json=asked.json)


if __name__ == "__main__":
    main()
