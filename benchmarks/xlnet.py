"""Training speed of an XLNet on permutations: qkv beside transformers' XLNetLMHeadModel in a plain loop, in one run.

    python benchmarks/xlnet.py --preset small --rounds 5 --steps 3

Both train a model of the same sizes on the same windows of random ids, by turns, without dropout, since theirs has one
for the attention weights and all else. qkv steps as `qkv train` does: it draws what is asked for and an order, has
fused AdamW with decay of the matrices alone, clips, and keeps a running average. The loop has the same optimiser, decay
and clipping, its masks and mappings at hand, and their model's own loss; it keeps no average. Figures are medians over
rounds, in tokens read a second; "of ceiling" is the share of the machine's GEMM rate in the same precision, counting
queries and logits where they are asked for.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import apart
from apart import Contestant, Step, batch_of, contestants, decayed, own_step, peer_step, race, result
from corpus import whole_vocabulary
from peers import transformers_xlnet
from qkv.data import Batch
from qkv.models import XLNet, XLNetConfig, count_parameters
from qkv.objectives import PermutationLM
from qkv.text.tokenizer import PAD, Tokenizer

VOCABULARY, LENGTH = 32000, 128
# Settings of the model, and how many windows are a batch.
PRESETS: dict[str, tuple[dict[str, int], int]] = {
    "tiny": ({"layers": 2, "d_model": 128, "n_heads": 2}, 32),
    "small": ({"layers": 4, "d_model": 512, "n_heads": 8}, 16),
    "base": ({"layers": 12, "d_model": 768, "n_heads": 12}, 8),
}
PEERS = ("transformers",)
RATE, DECAY, BETAS = 4e-4, 0.01, (0.9, 0.999)


def step_of(who: Contestant, sizes: dict[str, Any], largest: Batch) -> Step:
    """What a contestant does with a batch: words as they are, as they are read, who is hidden from whom, targets."""
    c = XLNetConfig(**sizes["model"])
    if who.name == "qkv":
        objective = PermutationLM().knowing(Tokenizer.load(Path(sizes["tokenizer"])))
        how = {"learning_rate": RATE, "beta2": BETAS[1], "weight_decay": DECAY}
        return own_step(XLNet(c), objective, largest, who.precision, **how)
    model = transformers_xlnet(c)

    def loss_of(batch: Batch) -> Tensor:
        _, ids, *pairs, labels = batch.columns
        hidden, mapping = (one.unflatten(1, (-1, LENGTH)).float() for one in pairs)
        wanted = labels.masked_fill(labels == PAD, -100)
        loss: Tensor = model(ids, perm_mask=hidden, target_mapping=mapping, labels=wanted).loss
        return loss

    optimizer = torch.optim.AdamW(decayed(model, DECAY), lr=RATE, betas=BETAS, fused=True)
    return peer_step(model, optimizer, loss_of, who.precision)


def windows(count: int, rows: int, objective: PermutationLM) -> list[Batch]:
    """Batches of random ids, as they are and as they are asked about."""
    rng, found = torch.Generator().manual_seed(1), []
    for _ in range(count):
        ids = torch.randint(5, VOCABULARY, (rows, LENGTH), generator=rng)
        asked = objective.prepare(batch_of(ids), rng)
        hidden, mapping = (~asked.inputs["mask"]).long(), F.one_hot(asked.inputs["targets"], LENGTH)
        found.append(batch_of(ids, asked.inputs["ids"], hidden.flatten(1), mapping.flatten(1), asked.labels))
    return found


def flops(c: XLNetConfig, asked: float) -> float:
    """Of a token, forward and backward: 2 for each multiply-add, and backward costs two forwards.

    A layer has 12 d^2 weights, of which a query does without the 2 d^2 of keys and values; scores and mix have 2 d
    multiply-adds for each key, and places d for each of twice as many. What is `asked` for has V d more.
    """
    d = c.d_model
    looks = 4 * LENGTH * d
    content, query = 12 * d * d + looks, 10 * d * d + looks
    return 3 * 2 * (c.layers * (content + asked * query) + asked * c.vocab_size * d)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    own, rows = PRESETS[asked.preset]
    settings = {**own, "vocab_size": VOCABULARY, "max_length": LENGTH, "dropout": 0.0}
    c = XLNetConfig(**settings)
    everyone, tokenizer = contestants(asked.precision, asked.peers), whole_vocabulary(VOCABULARY, ("<mask>",))
    batches = windows(1 + asked.steps, rows, PermutationLM().knowing(tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        tokenizer.save(file)
        sizes = {"model": settings, "tokenizer": str(file)}
        seconds, memory = race(__file__, sizes, everyone, batches, asked.rounds, asked.threads)
    tokens, hidden = asked.steps * rows * LENGTH, sum(int((batch.columns[4] != PAD).sum()) for batch in batches[1:])
    found = result(asked, everyone, seconds, memory, tokens, tokens * flops(c, hidden / tokens))
    with torch.device("meta"):
        data = f"{rows} windows of {LENGTH} random ids, {hidden / tokens:.0%} of them asked for"
        return {**found, "parameters": count_parameters(XLNet(c)), "data": data}


def tell(found: dict[str, Any]) -> None:
    apart.tell(found, "training of an XLNet on permutations", found["data"], "token")


if __name__ == "__main__":
    about = "Training speed of an XLNet on permutations beside transformers."
    apart.run(about, step_of, measure, tell, presets=PRESETS, peers=PEERS, steps=3)
