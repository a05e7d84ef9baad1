"""Training speed of a GPT-2: qkv beside transformers' GPT2LMHeadModel and beside a small plain loop, in one run.

    python benchmarks/train_gpt2.py --preset small --rounds 5 --steps 3

All train a model of the same sizes on the same windows of random ids, by turns: dropout of 0.1 on the embeddings and
on what is added to the residuals, none on the attention weights, one table for tokens and output. qkv steps as `qkv
train` does: chunked loss, fused AdamW with decay of the matrices alone, clipping, running average. Both peers have the
same optimiser, decay and clipping, torch's fused causal attention and torch's cross-entropy; none keeps an average of
its weights, so that they have less to do. The plain loop's model is what one writes by hand (`peers.py`). Figures are
medians over rounds; "of ceiling" is the share of the machine's GEMM rate in the same precision.
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import apart
from apart import Contestant, Step, batch_of, contestants, decayed, own_step, peer_step, race, result
from peers import GPT2_PEERS
from qkv.data import Batch
from qkv.models import GPT2, GPT2Config, count_parameters
from qkv.objectives import CausalLM
from qkv.text.tokenizer import UNK

# Settings of the model, the length of its windows, and how many of them are a batch.
PRESETS: dict[str, tuple[dict[str, int], int, int]] = {
    "tiny": ({"layers": 4, "d_model": 128, "n_heads": 4, "vocab_size": 2000}, 64, 16),
    "small": ({"layers": 6, "d_model": 256, "n_heads": 4, "vocab_size": 8000}, 256, 16),
    "base": ({"layers": 12, "d_model": 768, "n_heads": 12, "vocab_size": 50257}, 512, 2),
}
RATE, DECAY, BETAS = 6e-4, 0.1, (0.9, 0.95)


def step_of(who: Contestant, sizes: dict[str, Any], largest: Batch) -> Step:
    """What a contestant does with a batch."""
    c = GPT2Config(**sizes)
    if who.name == "qkv":
        how = {"learning_rate": RATE, "beta2": BETAS[1], "weight_decay": DECAY}
        return own_step(GPT2(c), CausalLM(), largest, who.precision, **how)
    model, logits_of = GPT2_PEERS[who.name](c)

    def loss_of(batch: Batch) -> Tensor:
        (ids,) = batch.columns
        return F.cross_entropy(logits_of(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    optimizer = torch.optim.AdamW(decayed(model, DECAY), lr=RATE, betas=BETAS, fused=True)
    return peer_step(model, optimizer, loss_of, who.precision)


def windows(count: int, length: int, rows: int, vocabulary: int) -> list[Batch]:
    """Batches of random ids: each window and the token after it."""
    rng = torch.Generator().manual_seed(1)
    return [batch_of(torch.randint(UNK + 1, vocabulary, (rows, length + 1), generator=rng)) for _ in range(count)]


def flops(c: GPT2Config, length: int) -> float:
    """Of a token, forward and backward: 2 for each multiply-add, and backward costs two forwards.

    A layer has 12 d^2 weights, and scores and mix have 2 d multiply-adds for each key: half the window on average. The
    vocabulary is V d.
    """
    d = c.d_model
    return 3 * 2 * (c.layers * (12 * d * d + length * d) + c.vocab_size * d)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    own, length, rows = PRESETS[asked.preset]
    sizes = {**own, "max_length": length, "dropout": 0.1}
    everyone, c = contestants(asked.precision, asked.peers), GPT2Config(**sizes)
    batches = windows(1 + asked.steps, length, rows, c.vocab_size)
    seconds, memory = race(__file__, sizes, everyone, batches, asked.rounds, asked.threads)
    tokens = asked.steps * rows * length
    found = result(asked, everyone, seconds, memory, tokens, tokens * flops(c, length))
    with torch.device("meta"):
        return {**found, "parameters": count_parameters(GPT2(c)), "data": f"{rows} windows of {length} random ids"}


def tell(found: dict[str, Any]) -> None:
    apart.tell(found, "training of a GPT-2", found["data"], "token")


if __name__ == "__main__":
    about = "Training speed of a GPT-2 beside other loops."
    apart.run(about, step_of, measure, tell, presets=PRESETS, peers=GPT2_PEERS, steps=3)
