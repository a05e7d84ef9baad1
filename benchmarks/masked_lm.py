"""Training speed of a BERT on hidden words: qkv beside transformers' BertForMaskedLM in a plain loop, in one run.

    python benchmarks/masked_lm.py --preset small --rounds 5 --steps 3

Both train a model of the same sizes, with BERT's vocabulary, on the same windows of random ids, by turns: dropout of
0.1 on the embeddings and on what is added to the residuals, none on the attention weights. qkv steps as `qkv train`
does: it hides words, computes logits where they are asked for, has fused AdamW with decay of the matrices alone, clips,
and keeps a running average. The loop has the same optimiser, decay and clipping, words that are hidden already, and
their model's own loss, with labels of -100 where nothing is asked; it keeps no average. Figures are medians over
rounds, in tokens read a second; "of ceiling" is the share of the machine's GEMM rate in the same precision, counting
logits where they are asked for.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import apart
from apart import Contestant, Step, batch_of, contestants, decayed, own_step, peer_step, race, result
from corpus import whole_vocabulary
from peers import transformers_bert
from qkv.data import Batch
from qkv.models import Bert, BertConfig, count_parameters
from qkv.objectives import MaskedLM
from qkv.text.tokenizer import PAD, Tokenizer

VOCABULARY, LENGTH = 30522, 128
# Settings of the model, and how many windows are a batch.
PRESETS: dict[str, tuple[dict[str, int], int]] = {
    "tiny": ({"layers": 2, "d_model": 128, "n_heads": 2}, 32),
    "small": ({"layers": 4, "d_model": 512, "n_heads": 8}, 16),
    "base": ({"layers": 12, "d_model": 768, "n_heads": 12}, 8),
}
PEERS = ("transformers",)
RATE, DECAY, BETAS = 5e-4, 0.01, (0.9, 0.98)


def step_of(who: Contestant, sizes: dict[str, Any], largest: Batch) -> Step:
    """What a contestant does with a batch: words as they are, with some of them hidden, and those."""
    c = BertConfig(**sizes["model"])
    if who.name == "qkv":
        objective = MaskedLM().knowing(Tokenizer.load(Path(sizes["tokenizer"])))
        how = {"learning_rate": RATE, "beta2": BETAS[1], "weight_decay": DECAY}
        return own_step(Bert(c), objective, largest, who.precision, **how)
    model = transformers_bert(c, "BertForMaskedLM")

    def loss_of(batch: Batch) -> Tensor:
        _, hidden, labels = batch.columns
        loss: Tensor = model(hidden, labels=labels.masked_fill(labels == PAD, -100)).loss
        return loss

    optimizer = torch.optim.AdamW(decayed(model, DECAY), lr=RATE, betas=BETAS, fused=True)
    return peer_step(model, optimizer, loss_of, who.precision)


def windows(count: int, rows: int, objective: MaskedLM) -> list[Batch]:
    """Batches of random ids, as they are and with words hidden."""
    rng, found = torch.Generator().manual_seed(1), []
    for _ in range(count):
        ids = torch.randint(5, VOCABULARY, (rows, LENGTH), generator=rng)
        asked = objective.prepare(batch_of(ids), rng)
        found.append(batch_of(ids, asked.inputs["ids"], asked.labels))
    return found


def flops(c: BertConfig, asked: float) -> float:
    """Of a token, forward and backward: 2 for each multiply-add, and backward costs two forwards.

    A layer has 12 d^2 weights, and scores and mix have 2 d multiply-adds for each key. Of those that are `asked` for,
    the vocabulary has V d, and what stands before it d^2.
    """
    d = c.d_model
    return 3 * 2 * (c.layers * (12 * d * d + 2 * LENGTH * d) + asked * (c.vocab_size * d + d * d))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    own, rows = PRESETS[asked.preset]
    c = BertConfig(**own, vocab_size=VOCABULARY, max_length=LENGTH)
    everyone, tokenizer = contestants(asked.precision, asked.peers), whole_vocabulary(VOCABULARY, ("<mask>",))
    batches = windows(1 + asked.steps, rows, MaskedLM().knowing(tokenizer))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        tokenizer.save(file)
        sizes = {"model": {**own, "vocab_size": VOCABULARY, "max_length": LENGTH}, "tokenizer": str(file)}
        seconds, memory = race(__file__, sizes, everyone, batches, asked.rounds, asked.threads)
    tokens, hidden = asked.steps * rows * LENGTH, sum(int((batch.columns[2] != PAD).sum()) for batch in batches[1:])
    found = result(asked, everyone, seconds, memory, tokens, tokens * flops(c, hidden / tokens))
    with torch.device("meta"):
        data = f"{rows} windows of {LENGTH} random ids, {hidden / tokens:.0%} of them asked for"
        return {**found, "parameters": count_parameters(Bert(c)), "data": data}


def tell(found: dict[str, Any]) -> None:
    apart.tell(found, "training of a BERT on hidden words", found["data"], "token")


if __name__ == "__main__":
    about = "Training speed of a BERT on hidden words beside transformers."
    apart.run(about, step_of, measure, tell, presets=PRESETS, peers=PEERS, steps=3)
