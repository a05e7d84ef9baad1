"""Training speed: qkv beside a plain torch.nn.Transformer loop and Hugging Face's Marian, in one run.

    python benchmarks/train.py --preset small --rounds 5 --steps 20

All train a model of the same sizes on the same batches of Multi30k, and take turns, so that whatever else the machine
does slows all of them. qkv steps as `qkv train` does: chunked loss, fused AdamW, clipping, running average. The plain
loop has Adam and no clipping, Marian has the fused AdamW and the clipping of Hugging Face's own Trainer; neither keeps
an average of its weights, so both have less to do. Figures are medians over rounds, in real target tokens a second.
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from peers import Plain, marian
from qkv.data import Batch, Batches, Corpus, write_shards
from qkv.models import PRESETS, Transformer, TransformerConfig, parameter_count
from qkv.objectives import Translation
from qkv.text import read_pairs
from qkv.text.tokenizer import PAD, Tokenizer
from qkv.training import TrainingConfig
from qkv.training.device import choose_precision
from qkv.training.trainer import Hooks, Trainer

DATA = Path(os.environ.get("QKV_DATA", Path(__file__).resolve().parents[1] / "../shared/data")) / "multi30k"
VOCABULARY, BATCH_TOKENS, SMOOTHING = 8000, 4096, 0.1
CUBE = 2048  # side of the matrices that measure the machine's ceiling
# Lengths of Multi30k (29,000 pairs en-de, one BPE vocabulary of 8,000): source tokens, and target tokens for each
# source token. The two are all but independent (correlation -0.08), so that they can be drawn one by one.
PERCENT = [0, 1, 5, 25, 50, 75, 95, 99, 100]
SOURCE_TOKENS = [4, 7, 8, 11, 14, 17, 23, 29, 48]
TARGET_RATIO = [0.19, 0.67, 0.77, 0.91, 1.0, 1.15, 1.38, 1.62, 2.4]

SYLLABLES = ["ka", "lo", "mi", "ren", "tus", "ve", "shi", "dor", "pa", "nel", "go", "bri"]

Step = Callable[[Batch], None]
Pairs = list[tuple[str, str]]


# -- the batches -----------------------------------------------------------------------------------------------------


def multi30k() -> tuple[Pairs, str]:
    """The real pairs if they are there, else made-up ones of the same lengths; and which of the two."""
    files = [DATA / "train.en.gz", DATA / "train.de.gz"]
    if all(path.exists() for path in files):
        return [pair[:2] for pair in read_pairs(files, source="en", target="de")], "Multi30k en-de"
    return list(generated(29_000)), "generated text with the lengths of Multi30k"


def generated(count: int) -> Iterator[tuple[str, str]]:
    """Sentences of 1,728 made-up words: few enough for each to become one token, so that words are tokens."""
    rng = random.Random(1)
    words = ["".join(parts) for parts in itertools.product(SYLLABLES, repeat=3)]
    sources = np.interp([100 * rng.random() for _ in range(count)], PERCENT, SOURCE_TOKENS)
    ratios = np.interp([100 * rng.random() for _ in range(count)], PERCENT, TARGET_RATIO)
    for source, ratio in zip(sources, ratios, strict=True):
        yield tuple(" ".join(rng.choices(words, k=max(1, round(n)))) for n in (source, source * ratio))  # type: ignore[misc]


def batched(pairs: Pairs, folder: Path) -> Batches:
    """Batches as training makes them."""
    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), vocab_size=VOCABULARY)
    write_shards(folder / "shards", pairs, tokenizer, count=len(pairs), max_length=200)
    return Batches(Corpus.open(folder / "shards", tokenizer.fingerprint), BATCH_TOKENS, seed=1)


# -- who takes part --------------------------------------------------------------------------------------------------


def qkv_step(c: TransformerConfig, batches: Batches, precision: torch.dtype) -> Step:
    """One step of `qkv train`, with the settings that it chooses by itself."""
    settings = TrainingConfig(schedule="cosine(warmup=400)", steps=10**6, device="cpu", precision=spelled(precision))
    hooks = Hooks(lambda _: {}, lambda model, path: None, lambda event: None, Path())
    trainer = Trainer(Transformer(c), Translation(label_smoothing=SMOOTHING), batches, settings, hooks)
    trainer.model.train()

    def step(batch: Batch) -> None:
        trainer.step([batch])

    return step


def peer_step(c: TransformerConfig, precision: torch.dtype, *, is_plain: bool) -> Step:
    """Forward, torch's own smoothed loss, backward and a step of the optimiser."""
    model = (Plain(c) if is_plain else marian(c)).train()
    kind, fused = (torch.optim.Adam, None) if is_plain else (torch.optim.AdamW, True)
    optimizer = kind(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision is torch.bfloat16):
            src, tgt = batch.src, batch.tgt[:, :-1]
            logits = model(src, tgt) if is_plain else model(src, src != PAD, tgt).logits
            loss = criterion(logits.flatten(0, 1).float(), batch.tgt[:, 1:].flatten())
        loss.backward()
        if not is_plain:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


@dataclass(frozen=True)
class Contestant:
    name: str
    precision: torch.dtype

    def __str__(self) -> str:
        return f"{self.name} {spelled(self.precision)}"

    def step(self, c: TransformerConfig, batches: Batches) -> Step:
        torch.manual_seed(1)
        if self.name == "qkv":
            return qkv_step(c, batches, self.precision)
        return peer_step(c, self.precision, is_plain=self.name == "torch")


def contestants() -> list[Contestant]:
    precisions = [torch.float32]
    if choose_precision("auto", torch.device("cpu")) is torch.bfloat16:
        precisions.append(torch.bfloat16)
    return [Contestant(name, precision) for precision in precisions for name in ("qkv", "torch", "marian")]


def spelled(precision: torch.dtype) -> Any:
    return str(precision).removeprefix("torch.")


# -- what is measured ------------------------------------------------------------------------------------------------


def flops(c: TransformerConfig, batches: list[Batch]) -> float:
    """Of one forward and backward over the real tokens: 2 for each multiply-add, and backward costs two forwards.

    An encoder layer has 4 d^2 + 2 d f weights for each token and 2 n d multiply-adds for scores and mix; a decoder
    layer has 6 d^2 + 2 d f for each target token, 2 d^2 for each source token (keys and values of the memory), and
    2 (m + n) d; the vocabulary is V d for each target token. Padding is no work that anybody asked for.
    """
    d, f, total = c.d_model, c.d_ff, 0
    for batch in batches:
        n, m = (batch.src != PAD).sum(1), (batch.tgt[:, 1:] != PAD).sum(1)  # (B,): tokens of each sentence
        encoder = n * (4 * d * d + 2 * d * f + 2 * n * d)
        decoder = m * (6 * d * d + 2 * d * f + 2 * (m + n) * d) + n * 2 * d * d
        pairs = c.encoder_layers * encoder + c.decoder_layers * decoder + m * c.vocab_size * d
        total += int(pairs.sum())
    return 3 * 2 * total


def gemm(precision: torch.dtype) -> float:
    """Operations a second of one large product of matrices: what no training step can pass."""
    a, b = (torch.randn(CUBE, CUBE).to(precision) for _ in range(2))
    seconds = []
    for _ in range(4):
        began = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - began)
    return 2 * CUBE**3 / min(seconds)


def megabytes() -> float:
    """The most memory that this process has ever held."""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # getrusage counts bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def peak(number: int, asked: argparse.Namespace) -> float:
    """Peak memory of one contestant on the largest batch, in a process of its own."""
    command = [sys.executable, __file__, "--child", str(number), "--preset", asked.preset]
    command += ["--threads", str(asked.threads)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def peak_here(who: Contestant, c: TransformerConfig) -> float:
    with tempfile.TemporaryDirectory() as folder:
        batches = batched(list(generated(3000)), Path(folder))  # little text, so that only the steps need memory
        largest = batches.largest()
        step = who.step(c, batches)
        for _ in range(3):
            step(largest)
    return megabytes()


def race(steps: dict[Contestant, Step], batches: list[Batch], rounds: int) -> dict[Contestant, list[float]]:
    """Seconds of each contestant in each round; who begins changes from round to round."""
    for step in steps.values():
        step(batches[0])
    order, seconds = list(steps), {who: list[float]() for who in steps}
    for number in range(rounds):
        first = number % len(order)
        for who in order[first:] + order[:first]:
            began = time.perf_counter()
            for batch in batches:
                steps[who](batch)
            seconds[who].append(time.perf_counter() - began)
    return seconds


# -- the report ------------------------------------------------------------------------------------------------------


def measure(c: TransformerConfig, asked: argparse.Namespace) -> dict[str, Any]:
    everyone = contestants()
    memory = [peak(number, asked) for number, _ in enumerate(everyone)]  # first: a child's peak begins at ours
    pairs, data = multi30k()
    with tempfile.TemporaryDirectory() as folder:
        batches = batched(pairs, Path(folder))
        some = [batch for batch, _ in itertools.islice(batches.stream(), asked.steps)]
        seconds = race({who: who.step(c, batches) for who in everyone}, some, asked.rounds)
    ceiling = {who.precision: gemm(who.precision) for who in everyone}
    tokens = sum(int((batch.tgt[:, 1:] != PAD).sum()) for batch in some)
    work = flops(c, some) / tokens
    rows = []
    for who, peak_mb in zip(everyone, memory, strict=True):
        ours = seconds[Contestant("qkv", who.precision)]
        speed = tokens / median(seconds[who])
        rows.append({
            "who": who.name,
            "precision": spelled(who.precision),
            "tokens_per_second": speed,
            "share_of_ceiling": speed * work / ceiling[who.precision],
            "peak_mb": peak_mb,
            "qkv_is_faster": median(theirs / own for theirs, own in zip(seconds[who], ours, strict=True)),
        })  # fmt: skip
    gflops = {spelled(precision): found / 1e9 for precision, found in ceiling.items()}
    facts = {"preset": asked.preset, "parameters": parameter_count(c), "data": data, "threads": torch.get_num_threads()}
    facts |= {"rounds": asked.rounds, "steps": asked.steps, "tokens_a_step": tokens / asked.steps}
    return {**facts, "flops_per_token": work, "gemm_gflops": gflops, "rows": rows}


def tell(found: dict[str, Any]) -> None:
    print(
        f"{found['preset']} ({found['parameters'] / 1e6:.1f} M parameters), {found['data']}: {found['rounds']} rounds "
        f"of {found['steps']} steps, {found['tokens_a_step']:,.0f} real target tokens each, {found['threads']} threads"
    )
    gflops = ", ".join(f"{found:,.0f} GFLOP/s in {name}" for name, found in found["gemm_gflops"].items())
    print(f"{found['flops_per_token'] / 1e6:.1f} MFLOP a target token; the machine's ceiling (GEMM {CUBE}^3): {gflops}")
    print("\n                   tokens/s  of ceiling  peak memory  qkv is faster")
    for row in found["rows"]:
        print(
            f"{row['who']:<8}{row['precision']:<9}{row['tokens_per_second']:>10,.0f}{row['share_of_ceiling']:>11.0%}"
            f"{row['peak_mb']:>10,.0f} MB{row['qkv_is_faster']:>14.2f}x"
        )
    peers = [row for row in found["rows"] if row["who"] != "qkv"]
    said = [f"{row['qkv_is_faster']:.2f} times as fast as {row['who']} in {row['precision']}" for row in peers]
    print(f"\nqkv trains {', '.join(said)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Training speed beside torch.nn.Transformer and Marian.")
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="steps of each contestant in each round")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    c = TransformerConfig(**{**PRESETS[asked.preset], "vocab_size": VOCABULARY, "norm": "pre", "max_length": 256})
    if asked.child is not None:
        print(peak_here(contestants()[asked.child], c))
        return
    found = measure(c, asked)
    if asked.json:
        print(json.dumps(found))
    else:
        tell(found)


if __name__ == "__main__":
    main()
