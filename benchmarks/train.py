"""Training speed: qkv beside a torch.nn.Transformer loop, Hugging Face's Marian, x-transformers and eole, in one run.

    python benchmarks/train.py --preset small --rounds 5 --steps 20

All train a model of the same sizes on the same batches of Multi30k, by turns. qkv steps as `qkv train` does: chunked
loss, fused AdamW, clipping, running average. The plain torch loop has Adam and no clipping, as tutorials have; the
others have the fused AdamW and clipping. None of them keeps an average of its weights, so all have less to do. Those
that are not installed are left out. Each is a process of its own, since how a process keeps its memory changes its
speed. Figures are medians over rounds, in real target tokens a second; "of ceiling" is the share of the machine's GEMM
rate in the same precision, counting the work of the real tokens alone.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from corpus import VOCABULARY, batched, multi30k
from figures import Seconds, best, by_turns, show, spread, table, times_as_fast
from machine import facts, gemm
from peers import PEERS
from qkv.data import START, Batch, Place, Stream
from qkv.device import choose_precision
from qkv.memory import peak_memory
from qkv.models import PRESETS, Transformer, TransformerConfig, parameter_count
from qkv.objectives import Translation
from qkv.text.tokenizer import PAD
from qkv.training import TrainingConfig
from qkv.training.trainer import Hooks, Trainer

SMOOTHING = 0.1
PRECISIONS = ("float32", "bfloat16")

Step = Callable[[Batch], None]


# -- who takes part --------------------------------------------------------------------------------------------------


def qkv_step(c: TransformerConfig, batches: Stream, precision: Any) -> Step:
    """One step of `qkv train`, with the settings that it chooses by itself."""
    settings = TrainingConfig(schedule="cosine(warmup=400)", steps=10**6, device="cpu", precision=precision)
    hooks = Hooks(lambda _: {}, lambda model, path: None, lambda event: None, Path())
    trainer = Trainer(Transformer(c), Translation(label_smoothing=SMOOTHING), batches, settings, hooks)
    trainer.model.train()

    def step(batch: Batch) -> None:
        trainer.step([(batch, START)])

    return step


def peer_step(name: str, c: TransformerConfig, precision: str) -> Step:
    """Forward, torch's own smoothed loss, backward and a step of the optimiser."""
    model, logits_of = PEERS[name][1](c)
    model.train()
    is_plain = name == "torch"
    kind, fused = (torch.optim.Adam, None) if is_plain else (torch.optim.AdamW, True)
    optimizer = kind(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=fused)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            src, tgt = batch.columns
            logits = logits_of(src, tgt[:, :-1])
            loss = criterion(logits.flatten(0, 1).float(), tgt[:, 1:].flatten())
        loss.backward()
        if not is_plain:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


@dataclass(frozen=True)
class Contestant:
    name: str
    precision: str

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"

    def step(self, c: TransformerConfig, batches: Stream) -> Step:
        torch.manual_seed(1)
        return qkv_step(c, batches, self.precision) if self.name == "qkv" else peer_step(self.name, c, self.precision)


def contestants(precisions: list[str], peers: list[str]) -> list[Contestant]:
    if choose_precision("auto", torch.device("cpu")) is not torch.bfloat16:
        precisions = [precision for precision in precisions if precision != "bfloat16"]
    there = [name for name in peers if find_spec(PEERS[name][0])]
    return [Contestant(name, precision) for precision in precisions for name in ("qkv", *there)]


# -- what is measured ------------------------------------------------------------------------------------------------


def flops(c: TransformerConfig, batches: list[Batch]) -> float:
    """Of one forward and backward over the real tokens: 2 for each multiply-add, and backward costs two forwards.

    An encoder layer has 4 d^2 + 2 d f weights for each token and 2 n d multiply-adds for scores and mix; a decoder
    layer has 6 d^2 + 2 d f for each target token, 2 d^2 for each source token (keys and values of the memory), and
    2 (m + n) d; the vocabulary is V d for each target token. Padding is no work that anybody asked for.
    """
    d, f, total = c.d_model, c.d_ff, 0
    for batch in batches:
        n, m = (batch.lengths - torch.tensor([0, 1])).unbind(1)  # (B,): tokens of each sentence
        encoder = n * (4 * d * d + 2 * d * f + 2 * n * d)
        decoder = m * (6 * d * d + 2 * d * f + 2 * (m + n) * d) + n * 2 * d * d
        pairs = c.encoder_layers * encoder + c.decoder_layers * decoder + m * c.vocab_size * d
        total += int(pairs.sum())
    return 3 * 2 * total


def target_tokens(batches: list[Batch]) -> int:
    return sum(int(batch.lengths[:, 1].sum()) - len(batch) for batch in batches)


class One:
    """A stream of the one batch that there is: what a trainer is built with."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def count(self, epoch: int) -> int:
        return 1

    def largest(self) -> Batch:
        return self.batch

    def stream(self, place: Place = START) -> Iterator[tuple[Batch, Place]]:
        while True:
            yield self.batch, place

    def in_order(self) -> Iterator[Batch]:
        yield self.batch


class Apart:
    """A contestant in a process of its own, which takes its steps when it is told to."""

    def __init__(self, who: Contestant, sizes: dict[str, Any], file: Path, threads: int) -> None:
        command = [sys.executable, __file__, "--child", who.name, who.precision, json.dumps(sizes), str(file)]
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.told()  # that it is ready

    def told(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise SystemExit(f"{' '.join(self.process.args[2:5])} ended")  # type: ignore[index, arg-type]
        return line

    def __call__(self) -> None:
        """All steps once."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.peak = float(self.told())

    def end(self) -> float:
        """Its peak memory, in megabytes."""
        self.process.communicate()
        return self.peak


def child(who: Contestant, sizes: dict[str, Any], file: Path) -> None:
    """The other end: one step on the largest batch, which only warms up; then all of them for each line that comes."""
    tensors = load_file(file)
    batches = [restored(tensors[f"src.{i}"], tensors[f"tgt.{i}"]) for i in range(len(tensors) // 2)]
    largest, *some = batches
    step = who.step(TransformerConfig(**sizes), One(largest))
    step(largest)
    print("ready", flush=True)
    for _ in sys.stdin:
        for batch in some:
            step(batch)
        print((peak_memory() or 0) / 2**20, flush=True)


def restored(*columns: torch.Tensor) -> Batch:
    """A batch of these columns."""
    lengths = torch.stack([(column != PAD).sum(1) for column in columns], dim=1)
    return Batch(columns, lengths, np.zeros((len(lengths), 2), dtype=np.int64))


def race(
    sizes: dict[str, Any], everyone: list[Contestant], largest: Batch, batches: list[Batch], rounds: int, threads: int
) -> tuple[Seconds, list[float]]:
    """Seconds of each contestant in each round, and its peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "batches.safetensors"
        named = [(f"{side}.{i}", one) for i, batch in enumerate([largest, *batches])
                 for side, one in zip(("src", "tgt"), batch.columns, strict=True)]  # fmt: skip
        save_file({name: tensor.clone() for name, tensor in named}, file)  # growth gives one batch several times
        runs = {str(who): Apart(who, sizes, file, threads) for who in everyone}
        seconds = by_turns(runs, rounds)
        return seconds, [run.end() for run in runs.values()]


# -- the report ------------------------------------------------------------------------------------------------------


def measure(sizes: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    everyone, c = contestants(asked.precision, asked.peers), TransformerConfig(**sizes)
    pairs, data = multi30k()
    with tempfile.TemporaryDirectory() as folder:
        batches = batched(pairs, Path(folder))
        some = [batch for batch, _ in itertools.islice(batches.stream(), asked.steps)]
        seconds, memory = race(sizes, everyone, batches.largest(), some, asked.rounds, asked.threads)
    ceiling = {precision: gemm(precision) for precision in dict.fromkeys(who.precision for who in everyone)}
    tokens = target_tokens(some)
    work = flops(c, some) / tokens
    rows = []
    for who, peak_mb in zip(everyone, memory, strict=True):
        rivals = [str(peer) for peer in everyone if peer.precision == who.precision and peer.name != "qkv"]
        own, speed = seconds[str(who)], tokens / median(seconds[str(who)])
        rows.append({
            "who": who.name, "precision": who.precision, "tokens_per_second": speed, "spread": spread(own),
            "as_fast": times_as_fast(own, seconds[best(seconds, rivals or [str(who)])]),
            "of_ceiling": speed * work / ceiling[who.precision], "peak_mb": peak_mb,
        })  # fmt: skip
    found = {"preset": asked.preset, "parameters": parameter_count(c), "data": data, "machine": facts()}
    found |= {
        "threads": asked.threads,
        "rounds": asked.rounds,
        "steps": asked.steps,
        "tokens_a_step": tokens / asked.steps,
    }
    gops = {precision: rate / 1e9 for precision, rate in ceiling.items()}
    left_out = [name for name in asked.peers if not find_spec(PEERS[name][0])]
    return {**found, "flops_per_token": work, "gemm_gflops": gops, "rows": rows, "not_installed": left_out}


def tell(found: dict[str, Any]) -> None:
    gops = ", ".join(f"{rate:,.0f} GFLOP/s in {name}" for name, rate in found["gemm_gflops"].items())
    print(
        f"\n### {found['preset']}, training\n\n{found['parameters'] / 1e6:.1f} M parameters, {found['data']}: "
        f"{found['rounds']} rounds of {found['steps']} steps, {found['tokens_a_step']:,.0f} real target tokens each; "
        f"{found['flops_per_token'] / 1e6:.1f} MFLOP a target token, ceiling {gops}; {found['threads']} threads, "
        f"{found['machine']}\n"
    )
    head = ["who", "precision", "tokens/s", "spread", "to the best peer", "of ceiling", "peak memory"]
    rows = [
        [row["who"], row["precision"], f"{row['tokens_per_second']:,.0f}", f"{row['spread']:.0%}",
         f"{row['as_fast']:.2f}x", f"{row['of_ceiling']:.0%}", f"{row['peak_mb']:,.0f} MB"]
        for row in found["rows"]
    ]  # fmt: skip
    print(table(head, rows))
    for name in found["not_installed"]:
        print(f"\n{name} is left out: {PEERS[name][0]} is not installed")


def main() -> None:
    parser = argparse.ArgumentParser(description="Training speed beside other libraries.")
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="steps of each contestant in each round")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.child:
        name, precision, sizes, file = asked.child
        child(Contestant(name, precision), json.loads(sizes), Path(file))
        return
    found = measure({**PRESETS[asked.preset], "vocab_size": VOCABULARY, "norm": "pre", "max_length": 256}, asked)
    show(found, tell, as_json=asked.json)


if __name__ == "__main__":
    main()
