"""Several processes: one of two threads beside two ranks of one thread each, and a peer's loop, in one run.

    python benchmarks/ranks.py --preset small --rounds 5 --steps 10

A step learns from two batches: one process accumulates them, of two ranks each computes one and gradients are summed.
The peer is Hugging Face accelerate's loop (Accelerator.prepare, backward, clip, step) around a torch.nn.Transformer of
the same sizes; where accelerate is not installed, DistributedDataParallel, which is what its loop wraps. All take their
steps by turns; figures are medians over rounds, in target tokens a second. "talking" is the share of a step of two
ranks that the sum of gradients takes by itself, and "on paper" the speed that benchmarks/simulate.py has for them, from
the seconds of one batch and of one sum.
"""

import argparse
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from apart import One, decayed
from corpus import VOCABULARY, even_batch
from figures import arguments, by_turns, show, spread, table, times_as_fast
from machine import facts
from peers import PEERS
from qkv.data import START, Batch
from qkv.models import PRESETS, Transformer, TransformerConfig, parameter_count
from qkv.objectives import Translation
from qkv.text.tokenizer import PAD
from qkv.training import TrainingConfig
from qkv.training.ranks import Ranks, joined
from qkv.training.trainer import Hooks, Trainer
from simulate import efficiency

LENGTH, TOGETHER = 24, 2  # tokens of a sentence; batches of a step
WHO = {"qkv, 1 process": ("qkv", 1), "qkv, 2 ranks": ("qkv", 2), "peer, 2 ranks": ("peer", 2)}
PEER = "accelerate" if find_spec("accelerate") else "DistributedDataParallel"


def own_step(c: TransformerConfig, batch: Batch, ranks: Ranks) -> Any:
    how: Any = {"steps": 10**6, "device": "cpu", "precision": "float32", "accumulate": TOGETHER}
    hooks = Hooks(lambda _: {}, lambda model, path: None, lambda event: None, Path())
    stream: Any = One(batch)
    stream.carry = False
    trainer = Trainer(Transformer(c), Translation(), stream, TrainingConfig(**how), hooks, ranks=ranks)
    trainer.model.train()
    return lambda: trainer.step([(batch, START)] * (TOGETHER // ranks.count))


def peer_step(c: TransformerConfig, batch: Batch) -> Any:
    model, logits_of = PEERS["torch"][1](c)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    class Loss(nn.Module):
        """What is given to DistributedDataParallel calls the model by its forward."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
            loss: Tensor = criterion(logits_of(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
            return loss

    asked: Any = Loss().train()
    optimizer: Any = torch.optim.AdamW(decayed(model, 0.01), lr=1e-4, fused=True)
    backward, clip = Tensor.backward, nn.utils.clip_grad_norm_
    if PEER == "accelerate":
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        asked, optimizer = accelerator.prepare(asked, optimizer)
        backward, clip = accelerator.backward, accelerator.clip_grad_norm_
    else:
        asked = nn.parallel.DistributedDataParallel(asked)

    def step() -> None:
        backward(asked(*batch.columns))
        clip(asked.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def child(asked: argparse.Namespace) -> None:
    """One rank: for each line, so many steps; the first line it says is the seconds of one sum of gradients."""
    c = TransformerConfig(**{**PRESETS[asked.preset], "vocab_size": VOCABULARY, "norm": "pre", "max_length": 256})
    with joined() as ranks:
        batch = even_batch(asked.tokens, LENGTH, VOCABULARY)
        step = own_step(c, batch, ranks) if asked.child == "qkv" else peer_step(c, batch)
        step()
        seconds = [0.0]
        if ranks.count > 1:
            gradients = torch.zeros(parameter_count(c))
            for _ in range(5):
                began = time.perf_counter()
                dist.all_reduce(gradients)
                seconds.append(time.perf_counter() - began)
        print(median(seconds), flush=True)
        for _ in sys.stdin:
            for _ in range(asked.steps):
                step()
            print("done", flush=True)


class Group:
    """The processes of a contestant, which step when a line comes."""

    def __init__(self, kind: str, count: int, asked: argparse.Namespace) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, __file__, "--child", kind, "--preset", asked.preset, "--tokens", str(asked.tokens)]
        command += ["--steps", str(asked.steps)]
        shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                  "OMP_NUM_THREADS": asked.threads // count}  # fmt: skip
        places = [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in range(count)]
        self.ranks = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, **{name: str(value) for name, value in place.items()}},
            )
            for place in places
        ]  # fmt: skip
        self.sum_seconds = max(map(float, self.answers()))

    def answers(self) -> list[str]:
        lines = [rank.stdout.readline() for rank in self.ranks if rank.stdout]
        if not all(lines):
            raise SystemExit("a rank ended")
        return lines

    def __call__(self) -> None:
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write("\n")
            rank.stdin.flush()
        self.answers()

    def end(self) -> None:
        for rank in self.ranks:
            rank.communicate()


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    groups = {name: Group(*how, asked) for name, how in WHO.items()}
    seconds = by_turns(groups, asked.rounds)
    for group in groups.values():
        group.end()
    tokens = TOGETHER * (asked.tokens // LENGTH) * LENGTH * asked.steps
    a_batch = median(seconds["qkv, 1 process"]) / asked.steps / TOGETHER  # by all threads
    rows = []
    for name, own in seconds.items():
        talking = groups[name].sum_seconds
        rows.append({
            "who": name.replace("peer", PEER), "tokens_per_second": tokens / median(own), "spread": spread(own),
            "as_fast": times_as_fast(own, seconds["qkv, 1 process"]),
            "talking": talking / (median(own) / asked.steps),
            "on_paper": efficiency(TOGETHER * a_batch, talking) if talking else 1.0,
        })  # fmt: skip
    return {"preset": asked.preset, "machine": facts(), "threads": asked.threads, "rounds": asked.rounds,
            "steps": asked.steps, "tokens": asked.tokens, "rows": rows}  # fmt: skip


def tell(found: dict[str, Any]) -> None:
    print(f"\n### {found['preset']}, several processes\n\n{found['rounds']} rounds of {found['steps']} steps of 2 x "
          f"{found['tokens']:,} target tokens; {found['threads']} threads in all, {found['machine']}\n")  # fmt: skip
    head = ["who", "tokens/s", "spread", "to 1 process", "talking", "on paper"]
    rows = [
        [row["who"], f"{row['tokens_per_second']:,.0f}", f"{row['spread']:.0%}", f"{row['as_fast']:.2f}x",
         f"{row['talking']:.0%}", f"{row['on_paper']:.2f}x"]
        for row in found["rows"]
    ]  # fmt: skip
    print(table(head, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Training speed of several processes.")
    parser.add_argument("--preset", choices=[*PRESETS], default="small")
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch")
    parser.add_argument("--steps", type=int, default=10, help="of each contestant in each round")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = arguments(parser, rounds=5, threads=2, use="of all processes of a contestant together")
    if given.child:
        child(given)
    else:
        show(measure(given), tell, as_json=given.json)
