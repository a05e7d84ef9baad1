"""Training speed of a classifier on a BERT: qkv beside transformers' BertForSequenceClassification, in one run.

    python benchmarks/fine_tune.py --preset small --rounds 5

Both train a model of the same sizes, with BERT's vocabulary, on the same sentences of SST-2, by turns: dropout of 0.1
everywhere but on the attention weights, fused AdamW with decay of the matrices alone, clipping. A part of an epoch,
1,024 sentences, is one step here, and each cuts it into batches in its own way. qkv: those of like length together
under a budget of tokens, chosen so that all take about as many steps of the optimiser. "transformers": 32 by chance,
padded to the longest of them (DataCollatorWithPadding); "by length": the very batches of qkv (group_by_length). Figures
are medians over rounds, in real tokens a second; "of ceiling" is the share of the machine's GEMM rate in the same
precision, counting the work of the real tokens alone.
"""

import argparse
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import apart
import masked_lm
from apart import Contestant, Step, batch_of, contestants, decayed, own_step, peer_step, race, result
from corpus import sentences
from masked_lm import VOCABULARY
from peers import transformers_bert
from qkv.data import Batch
from qkv.data.buckets import by_length, cut
from qkv.models import Bert, BertConfig, Headed, count_parameters
from qkv.objectives import Classes
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

PRESETS = {name: sizes for name, (sizes, _) in masked_lm.PRESETS.items()}
PEERS = ("transformers", "by length")
PART, ROWS = 1024, 32  # sentences of a part, and of a batch
RATE, DECAY, BETAS = 5e-5, 0.01, (0.9, 0.98)


def step_of(who: Contestant, sizes: dict[str, Any], largest: Batch) -> Step:
    """What a contestant does with a part of an epoch."""
    c = BertConfig(**sizes)
    if who.name == "qkv":
        model = Headed(Bert(c), {"classes": "classes(n=2, pool='first', dense=True)"})
        how = {"learning_rate": RATE, "beta2": BETAS[1], "weight_decay": DECAY, "average": "none"}
        step = own_step(model, Classes(), largest, who.precision, **how)
    else:
        theirs = transformers_bert(c, "BertForSequenceClassification")

        def loss_of(batch: Batch) -> Tensor:
            ids, labels = batch.columns
            loss: Tensor = theirs(ids, attention_mask=(ids != PAD).long(), labels=labels[:, 0]).loss
            return loss

        optimizer = torch.optim.AdamW(decayed(theirs, DECAY), lr=RATE, betas=BETAS, fused=True)
        step = peer_step(theirs, optimizer, loss_of, who.precision)
    chosen = by_chance if who.name == "transformers" else alike

    def steps(part: Batch) -> None:
        for batch in chosen(part):
            step(batch)

    return steps


def by_chance(part: Batch) -> list[Batch]:
    return [picked(part, rows) for rows in torch.randperm(len(part)).split(ROWS)]


def alike(part: Batch) -> list[Batch]:
    """As Buckets cuts them."""
    lengths = part.lengths[:, :1].numpy()
    order = by_length(lengths)
    cuts = cut(lengths[order], math.ceil(ROWS * lengths.mean()))
    batches = [picked(part, torch.from_numpy(rows)) for rows in np.split(order, cuts[1:-1])]
    random.shuffle(batches)
    return batches


def picked(part: Batch, rows: Tensor) -> Batch:
    ids, labels = part.columns
    return batch_of(ids[rows, : int(part.lengths[rows, 0].max())], labels[rows])


def parts(count: int) -> tuple[list[Batch], str]:
    """So many parts of an epoch, each padded to its longest sentence, and where they are from."""
    texts, name = sentences()
    texts = random.Random(1).sample(texts, count * PART)
    ids = [torch.tensor([BOS, *row, EOS]) for row in Tokenizer.train(texts, vocab_size=8000).encode_batch(texts)]
    rows = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
    labels = torch.randint(2, (len(rows), 1), generator=torch.Generator().manual_seed(1))
    return [batch_of(rows[i : i + PART], labels[i : i + PART]) for i in range(0, len(rows), PART)], name


def flops(c: BertConfig, part: Batch) -> float:
    """Of one forward and backward over the real tokens: 2 for each multiply-add, and backward costs two forwards.

    A layer has 12 d^2 weights, and scores and mix have 2 d multiply-adds for each key; the head d^2 for each sentence.
    """
    d, n = c.d_model, part.lengths[:, 0].double()
    return float(3 * 2 * (c.layers * n * (12 * d * d + 2 * n * d) + d * d).sum())


def padding(part: Batch, way: Callable[[Batch], list[Batch]]) -> float:
    return 1 - int(part.lengths[:, 0].sum()) / sum(batch.columns[0].numel() for batch in way(part))


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    some, data = parts(asked.steps)
    sizes = {**PRESETS[asked.preset], "vocab_size": VOCABULARY, "max_length": some[0].columns[0].size(1)}
    everyone, c, warm = (
        contestants(asked.precision, asked.peers),
        BertConfig(**sizes),
        picked(some[0], torch.arange(64)),
    )
    seconds, memory = race(__file__, sizes, everyone, [warm, *some], asked.rounds, asked.threads)
    tokens = sum(int(part.lengths[:, 0].sum()) for part in some)
    found = result(asked, everyone, seconds, memory, tokens, sum(flops(c, part) for part in some))
    data += f", {padding(some[0], by_chance):.0%} padding by chance and {padding(some[0], alike):.0%} by length"
    with torch.device("meta"):
        return {**found, "parameters": count_parameters(Bert(c)), "data": data}


def tell(found: dict[str, Any]) -> None:
    apart.tell(found, "training of a classifier on a BERT", found["data"], "real token")


if __name__ == "__main__":
    about = "Training speed of a classifier on a BERT beside transformers."
    apart.run(about, step_of, measure, tell, presets=PRESETS, peers=PEERS, steps=1)
