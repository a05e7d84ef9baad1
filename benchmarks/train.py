"""Training speed: qkv beside a torch.nn.Transformer loop, Hugging Face's Marian, x-transformers and eole, in one run.

    python benchmarks/train.py --preset small --rounds 5 --steps 20

All train a model of the same sizes on the same batches of Multi30k, by turns. qkv steps as `qkv train` does: chunked
loss, fused AdamW, clipping, running average. The plain torch loop has Adam and no clipping, as tutorials have; the
others have the fused AdamW and clipping. None of them keeps an average of its weights, so all have less to do. Those
that are not installed are left out. Figures are medians over rounds, in real target tokens a second; "of ceiling" is
the share of the machine's GEMM rate in the same precision, counting the work of the real tokens alone.
"""

import argparse
import itertools
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import apart
from apart import Contestant, Step, contestants, own_step, peer_step, race, result
from corpus import VOCABULARY, batched, multi30k
from peers import PEERS
from qkv.data import Batch
from qkv.models import PRESETS, Transformer, TransformerConfig, parameter_count
from qkv.objectives import Translation
from qkv.text.tokenizer import PAD

SMOOTHING = 0.1


def step_of(who: Contestant, sizes: dict[str, Any], largest: Batch) -> Step:
    """What a contestant does with a batch."""
    c = TransformerConfig(**sizes)
    if who.name == "qkv":
        return own_step(Transformer(c), Translation(label_smoothing=SMOOTHING), largest, who.precision)
    model, logits_of = PEERS[who.name][1](c)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=SMOOTHING)

    def loss_of(batch: Batch) -> Tensor:
        src, tgt = batch.columns
        loss: Tensor = criterion(logits_of(src, tgt[:, :-1]).flatten(0, 1).float(), tgt[:, 1:].flatten())
        return loss

    how: dict[str, Any] = {"lr": 1e-4, "betas": (0.9, 0.98), "eps": 1e-9}
    if who.name == "torch":
        return peer_step(model, torch.optim.Adam(model.parameters(), **how), loss_of, who.precision, clip=None)
    return peer_step(model, torch.optim.AdamW(model.parameters(), **how, fused=True), loss_of, who.precision)


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


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    sizes = {**PRESETS[asked.preset], "vocab_size": VOCABULARY, "norm": "pre", "max_length": 256}
    left_out = [name for name in asked.peers if not find_spec(PEERS[name][0])]
    everyone = contestants(asked.precision, [name for name in asked.peers if name not in left_out])
    c, (pairs, data) = TransformerConfig(**sizes), multi30k()
    with tempfile.TemporaryDirectory() as folder:
        batches = batched(pairs, Path(folder))
        some = [batch for batch, _ in itertools.islice(batches.stream(), asked.steps)]
        seconds, memory = race(__file__, sizes, everyone, [batches.largest(), *some], asked.rounds, asked.threads)
    found = result(asked, everyone, seconds, memory, target_tokens(some), flops(c, some))
    return {**found, "parameters": parameter_count(c), "data": data, "not_installed": left_out}


def tell(found: dict[str, Any]) -> None:
    apart.tell(found, "training", found["data"], "real target token")
    for name in found["not_installed"]:
        print(f"\n{name} is left out: {PEERS[name][0]} is not installed")


if __name__ == "__main__":
    about = "Training speed beside other libraries."
    apart.run(about, step_of, measure, tell, presets=PRESETS, peers=PEERS, steps=20)
