"""A race of training loops: all take their steps by turns, each in a process of its own, since how a process keeps its
memory changes its speed."""

import json
import subprocess
import sys
import tempfile
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from figures import Seconds, arguments, best, by_turns, show, spread, table, times_as_fast
from machine import facts, gemm
from qkv.data import START, Batch, Place
from qkv.device import choose_precision
from qkv.memory import peak_memory
from qkv.objectives import Objective
from qkv.text.tokenizer import PAD
from qkv.training import TrainingConfig
from qkv.training.trainer import Hooks, Trainer

PRECISIONS = ("float32", "bfloat16")
HEAD = ["who", "precision", "tokens/s", "spread", "to the best peer", "of ceiling", "peak memory"]

Step = Callable[[Batch], None]


@dataclass(frozen=True)
class Contestant:
    name: str  # "qkv", or that of a peer
    precision: str

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"


Make = Callable[[Contestant, dict[str, Any], Batch], Step]  # what a contestant with these sizes does with a batch


def contestants(precisions: Sequence[str], peers: Iterable[str]) -> list[Contestant]:
    """qkv and its peers in each precision in which this processor computes."""
    if choose_precision("auto", torch.device("cpu")) is not torch.bfloat16:
        precisions = [precision for precision in precisions if precision != "bfloat16"]
    return [Contestant(name, precision) for precision in precisions for name in ("qkv", *peers)]


# -- steps -------------------------------------------------------------------------------------------------------------


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


def own_step(model: nn.Module, objective: Objective, largest: Batch, precision: str, **settings: Any) -> Step:
    """One step of `qkv train`."""
    how: Any = {"schedule": "cosine(warmup=400)", "steps": 10**6, "device": "cpu", "precision": precision, **settings}
    hooks = Hooks(lambda _: {}, lambda model, path: None, lambda event: None, Path())
    trainer = Trainer(model, objective, One(largest), TrainingConfig(**how), hooks)
    trainer.model.train()

    def step(batch: Batch) -> None:
        trainer.step([(batch, START)])

    return step


def decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """A peer's parameters for AdamW: the matrices decay, as ours do."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def peer_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[Batch], Tensor],
    precision: str,
    clip: float | None = 1.0,
) -> Step:
    """Forward, backward, clipping, a step of the optimiser."""
    model.train()

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of(batch)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# -- processes ---------------------------------------------------------------------------------------------------------


class Apart:
    """A contestant in a process of its own, which takes its steps when a line comes."""

    def __init__(self, script: str, who: Contestant, sizes: dict[str, Any], file: Path, threads: int) -> None:
        command = [sys.executable, script, "--child", who.name, who.precision, json.dumps(sizes), str(file)]
        command += ["--threads", str(threads)]
        self.who = who
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()  # that it is ready

    def answer(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise SystemExit(f"{self.who} ended")
        return line

    def __call__(self) -> None:
        """All steps once."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.peak = float(self.answer())

    def end(self) -> float:
        """Its peak memory, in megabytes."""
        self.process.communicate()
        return self.peak


def race(
    script: str, sizes: dict[str, Any], everyone: list[Contestant], batches: list[Batch], rounds: int, threads: int
) -> tuple[Seconds, list[float]]:
    """Seconds of each contestant in each round, and its peak memory; the first batch only warms up."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "batches.safetensors"
        columns = {f"{i}.{k}": ids for i, batch in enumerate(batches) for k, ids in enumerate(batch.columns)}
        save_file({name: ids.clone() for name, ids in columns.items()}, file)  # one batch may come several times
        runs = {str(who): Apart(script, who, sizes, file, threads) for who in everyone}
        seconds = by_turns(runs, rounds)
        return seconds, [run.end() for run in runs.values()]


def child(make: Make, asked: Sequence[str]) -> None:
    """The other end: one step on the largest batch, which only warms up; then all of them for each line that comes."""
    name, precision, sizes, file = asked
    tensors = load_file(Path(file))
    count = len({key.partition(".")[0] for key in tensors})
    largest, *some = [
        batch_of(*(tensors[f"{i}.{k}"] for k in range(len(tensors) // count))) for i in range(count)
    ]  # fmt: skip
    torch.manual_seed(1)
    step = make(Contestant(name, precision), json.loads(sizes), largest)
    step(largest)
    print("ready", flush=True)
    for _ in sys.stdin:
        for batch in some:
            step(batch)
        print((peak_memory() or 0) / 2**20, flush=True)


def batch_of(*columns: Tensor) -> Batch:
    """A batch of these columns, whose rows are as long as they have no padding."""
    lengths = torch.stack([(column != PAD).sum(1) for column in columns], dim=1)
    return Batch(columns, lengths, np.zeros((len(lengths), 2), dtype=np.int64))


# -- the report --------------------------------------------------------------------------------------------------------


def run(
    about: str, make: Make, measure: Callable[[Namespace], Any], tell: Callable[[Any], None],
    *, presets: Iterable[str], peers: Iterable[str], steps: int,
) -> None:  # fmt: skip
    """A race as the command line asks for it, or one of its contestants."""
    parser = ArgumentParser(description=about)
    parser.add_argument("--preset", choices=presets, default="small")
    parser.add_argument("--peers", nargs="*", choices=peers, default=list(peers))
    parser.add_argument("--steps", type=int, default=steps, help="steps of each contestant in each round")
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--child", nargs=4, help=SUPPRESS)
    asked = arguments(parser, rounds=5, threads=torch.get_num_threads(), use="of each contestant")
    torch.set_num_threads(asked.threads)
    if asked.child:
        child(make, asked.child)
    else:
        show(measure(asked), tell, as_json=asked.json)


def result(
    asked: Namespace, everyone: list[Contestant], seconds: Seconds, memory: list[float], tokens: int, flops: float
) -> dict[str, Any]:
    """What a race has shown: `tokens` and `flops` are those of all its steps."""
    ceiling = {precision: gemm(precision) for precision in dict.fromkeys(who.precision for who in everyone)}
    rows = []
    for who, peak_mb in zip(everyone, memory, strict=True):
        rivals = [str(peer) for peer in everyone if peer.precision == who.precision and peer.name != "qkv"]
        own, speed = seconds[str(who)], tokens / median(seconds[str(who)])
        rows.append({
            "who": who.name, "precision": who.precision, "tokens_per_second": speed, "spread": spread(own),
            "as_fast": times_as_fast(own, seconds[best(seconds, rivals or [str(who)])]),
            "of_ceiling": speed * flops / tokens / ceiling[who.precision], "peak_mb": peak_mb,
        })  # fmt: skip
    return {
        "preset": asked.preset, "machine": facts(), "threads": asked.threads, "rounds": asked.rounds,
        "steps": asked.steps, "tokens_a_step": tokens / asked.steps, "flops_per_token": flops / tokens,
        "gemm_gflops": {precision: rate / 1e9 for precision, rate in ceiling.items()}, "rows": rows,
    }  # fmt: skip


def tell(found: dict[str, Any], what: str, data: str, token: str) -> None:
    gops = ", ".join(f"{rate:,.0f} GFLOP/s in {name}" for name, rate in found["gemm_gflops"].items())
    print(
        f"\n### {found['preset']}, {what}\n\n{found['parameters'] / 1e6:.1f} M parameters, {data}: "
        f"{found['rounds']} rounds of {found['steps']} steps, {found['tokens_a_step']:,.0f} {token}s each; "
        f"{found['flops_per_token'] / 1e6:.1f} MFLOP a {token}, ceiling {gops}; {found['threads']} threads, "
        f"{found['machine']}\n"
    )
    rows = [
        [row["who"], row["precision"], f"{row['tokens_per_second']:,.0f}", f"{row['spread']:.0%}",
         f"{row['as_fast']:.2f}x", f"{row['of_ceiling']:.0%}", f"{row['peak_mb']:,.0f} MB"]
        for row in found["rows"]
    ]  # fmt: skip
    print(table(HEAD, rows))
