"""Training speed of an AWD-LSTM with all its dropouts: beside torch's plain nn.LSTM of the same sizes with none.

    python benchmarks/awd_lstm.py --preset base --rounds 5 --steps 2

Both train on the same windows of random ids, by turns: LSTM layers, one table for words and softmax, Adam, clipping.
qkv steps as `qkv train --recipe ulmfit-tiny` does: words, inputs, layers, outputs and recurrent matrices dropped, and
the costs of activations (AR, TAR). The peer is what one writes by hand: embedding, nn.LSTM, the table again, torch's
cross-entropy; it drops nothing. Figures are medians over rounds; "of ceiling" is the share of the machine's GEMM rate
in the same precision.
"""

import argparse
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import apart
from apart import Contestant, Step, batch_of, contestants, own_step, peer_step, race, result
from qkv.data import Batch
from qkv.models import AWDLSTM, AWDLSTMConfig, count_parameters
from qkv.objectives import objective
from qkv.text.tokenizer import UNK

# Settings of the model, the length of its windows, and how many of them are a batch.
PRESETS: dict[str, tuple[dict[str, Any], int, int]] = {
    "tiny": ({**AWDLSTM.presets["tiny"], "vocab_size": 2000}, 70, 8),
    "small": ({**AWDLSTM.presets["small"], "vocab_size": 8000}, 70, 32),
    "base": ({**AWDLSTM.presets["base"], "vocab_size": 30000}, 70, 32),
}
RATE, BETAS, EPSILON = 4e-3, (0.8, 0.99), 1e-8


class Plain(nn.Module):
    """Embedding, LSTM layers, and the table again."""

    def __init__(self, c: AWDLSTMConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(c.vocab_size, c.d_model)
        widths = [c.d_model, *[c.d_hidden] * (c.layers - 1), c.d_model]
        self.layers = nn.ModuleList(nn.LSTM(below, width, batch_first=True) for below, width in pairwise(widths))
        self.bias = nn.Parameter(torch.zeros(c.vocab_size))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x, _ = layer(x)
        return F.linear(x, self.table.weight, self.bias)


PEERS: dict[str, Callable[[AWDLSTMConfig], nn.Module]] = {"torch's LSTM": Plain}


def step_of(who: Contestant, sizes: dict[str, Any], largest: Batch) -> Step:
    """What a contestant does with a batch."""
    c = AWDLSTMConfig(**sizes)
    if who.name == "qkv":
        asked = objective("causal_lm + 2 * activation + temporal_activation")
        how = {"optimizer": "adam", "learning_rate": RATE, "beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON}
        return own_step(AWDLSTM(c), asked, largest, who.precision, **how, average="none")
    model = PEERS[who.name](c)

    def loss_of(batch: Batch) -> Tensor:
        (ids,) = batch.columns
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
    return peer_step(model, optimizer, loss_of, who.precision)


def flops(c: AWDLSTMConfig) -> float:
    """Of a token, forward and backward: 2 for each multiply-add, and backward costs two forwards.

    A layer has 4 D (D_in + D) weights, the softmax V D.
    """
    widths = [c.d_model, *[c.d_hidden] * (c.layers - 1), c.d_model]
    return 3 * 2 * (sum(4 * width * (below + width) for below, width in pairwise(widths)) + c.vocab_size * c.d_model)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    sizes, length, rows = PRESETS[asked.preset]
    everyone, c = contestants(asked.precision, asked.peers), AWDLSTMConfig(**sizes)
    rng = torch.Generator().manual_seed(1)
    some = (torch.randint(UNK + 1, c.vocab_size, (rows, length + 1), generator=rng) for _ in range(1 + asked.steps))
    seconds, memory = race(__file__, sizes, everyone, [*map(batch_of, some)], asked.rounds, asked.threads)
    tokens = asked.steps * rows * length
    found = result(asked, everyone, seconds, memory, tokens, tokens * flops(c))
    with torch.device("meta"):
        return {**found, "parameters": count_parameters(AWDLSTM(c)), "data": f"{rows} windows of {length} random ids"}


def tell(found: dict[str, Any]) -> None:
    apart.tell(found, "training of an AWD-LSTM", found["data"], "token")


if __name__ == "__main__":
    about = "Training speed of an AWD-LSTM with all its dropouts beside a plain LSTM."
    apart.run(about, step_of, measure, tell, presets=PRESETS, peers=PEERS, steps=2)
