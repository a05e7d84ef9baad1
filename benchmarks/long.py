"""Attention over long texts: windows, BigBird, Linformer and compressed memory beside torch's fused kernel and a peer.

    python benchmarks/long.py --rounds 5
    python benchmarks/long.py --lengths 2048 4096 --causal
    python benchmarks/long.py --lengths 1024 4096 --models

Each reads one text forward and backward, from q, k and v to their gradients: no projections. All take turns, round by
round, on as many threads as are given. The peer is transformers' BigBird with the same blocks. Megabytes are counted as
tensors come and go, beside q, k and v; `plain` is attention by its own formula, which makes the n x n matrix: up to
4,096 tokens. `--models` has whole steps of training in place of attentions alone: a BERT of four layers, which finds
hidden words of one text with each of them.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from apart import batch_of, own_step
from corpus import whole_vocabulary
from figures import arguments, by_turns, show, spread, table, times_as_fast
from machine import facts
from qkv.attention import build_attention
from qkv.look.cost import Meter
from qkv.models import Bert, BertConfig, TransformerConfig
from qkv.objectives import MaskedLM
from qkv.positions import Places

LENGTHS = [2048, 4096, 8192, 16384]
FUSED, PEER, PLAIN = "fused, dense", "transformers' BigBird", "plain, dense"
OURS = {
    False: ["window(radius=256)", "bigbird(block=64)", "linformer(k=256)", "memory_compressed(factor=3)"],
    True: ["window(radius=256)", "local(block=256)", "memory_compressed(factor=3)"],
}
MODELS = {
    FUSED: "scaled_dot",
    **{one: one for one in ("window(radius=256)", "bigbird(block=32, random=3)", "linformer(k=256, share='kv')")},
}
LONGEST_PLAIN, VOCABULARY = 4096, 8000

Rows = list[dict[str, Any]]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def ours(spec: str, length: int, width: int, heads: int, causal: bool) -> Attend:
    c = TransformerConfig(d_model=width, n_heads=heads, max_length=length)
    part = build_attention(spec, c, "decoder" if causal else "encoder")
    at = Places.span(0, length, torch.device("cpu"), causal=causal)
    return lambda q, k, v: part.fused(q, k, v, at)


def plain(length: int, width: int, heads: int, causal: bool) -> Attend:
    part = build_attention("scaled_dot", TransformerConfig(d_model=width, n_heads=heads), "encoder")
    at = Places.span(0, length, torch.device("cpu"), causal=causal)
    return lambda q, k, v: part.plain(q, k, v, at)[0]


def peer(length: int, width: int, heads: int) -> Attend:
    """The attention of BigBirdModel with attention_type="block_sparse" and the same blocks, as it trains."""
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    c = BigBirdConfig(hidden_size=width, num_attention_heads=heads, block_size=64, num_random_blocks=3,
                      max_position_embeddings=length)  # fmt: skip
    part = BigBirdBlockSparseAttention(c, seed=0).train()
    blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, length), 64)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        sizes = (heads, 3, width // heads, 64, 64, 1, length, length)
        context, _ = part.bigbird_block_sparse_attention(
            q, k, v, band, from_mask, to_mask, blocked, blocked, *sizes, seed=0, plan_from_length=None,
            plan_num_rand_blocks=None,
        )  # fmt: skip
        return context  # (B, T, H, K)

    return attend


def run(attend: Attend, given: SimpleNamespace) -> Callable[[], None]:
    def both_ways() -> None:
        for each in (given.q, given.k, given.v):
            each.grad = None
        context = attend(given.q, given.k, given.v)
        context.backward(given.along.view(context.shape) if context.shape == given.along.shape else given.other)

    return both_ways


def measure(length: int, asked: argparse.Namespace) -> Rows:
    heads, width = asked.heads, asked.width
    q, k, v = (torch.randn(1, length, heads, width // heads).transpose(1, 2).requires_grad_() for _ in range(3))
    along = torch.randn(1, heads, length, width // heads)
    given = SimpleNamespace(q=q, k=k, v=v, along=along, other=along.transpose(1, 2).contiguous())
    attends: dict[str, Attend] = {
        FUSED: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=asked.causal),
        **{spec: ours(spec, length, width, heads, asked.causal) for spec in OURS[asked.causal]},
    }
    if not asked.causal:
        attends[PEER] = peer(length, width, heads)
    if length <= LONGEST_PLAIN:
        attends[PLAIN] = plain(length, width, heads, asked.causal)
    return figures_of({name: run(attend, given) for name, attend in attends.items()}, length, asked.rounds)


def measure_models(length: int, asked: argparse.Namespace) -> Rows:
    objective = MaskedLM().knowing(whole_vocabulary(VOCABULARY, ("<mask>",)))
    batch, runs = batch_of(torch.randint(5, VOCABULARY, (1, length))), {}
    for name, spec in MODELS.items():
        c = BertConfig(
            layers=4, d_model=asked.width, n_heads=asked.heads, vocab_size=VOCABULARY, max_length=length,
            position="rotary", attention=spec, dropout=0.0,
        )  # fmt: skip
        runs[name] = partial(own_step(Bert(c), objective, batch, "float32"), batch)
    return figures_of(runs, length, asked.rounds)


def figures_of(runs: Mapping[str, Callable[[], None]], length: int, rounds: int) -> Rows:
    size = {}
    for name, one in runs.items():  # also a first run, which is not timed
        with Meter() as watched:
            one()
        size[name] = watched.bytes / 2**20
    seconds = by_turns(runs, rounds)
    return [
        {
            "length": length,
            "who": name,
            "seconds": median(taken),
            "spread": spread(taken),
            "to_fused": times_as_fast(taken, seconds[FUSED]),
            "to_peer": times_as_fast(taken, seconds[PEER]) if PEER in seconds else None,
            "megabytes": size[name],
            "memory_to_fused": size[name] / size[FUSED],
        }
        for name, taken in seconds.items()
    ]


def tell(found: dict[str, Any]) -> None:
    print(f"\n### Long texts{', causal' if found['causal'] else ', whole models' if found['models'] else ''}\n")
    what = "steps of training a BERT of 4 layers" if found["models"] else "forward and backward"
    print(f"Width {found['width']}, {found['heads']} heads, {what}; {found['rounds']} rounds, ", end="")
    print(f"{found['threads']} threads; {found['machine']}\n")
    lines = [
        [
            f"{row['length']:,}", row["who"], f"{row['seconds']:.3f}", f"{row['spread']:.0%}", f"{row['to_fused']:.2f}",
            f"{row['to_peer']:.2f}" if row["to_peer"] else "-", f"{row['megabytes']:,.0f}",
            f"{row['memory_to_fused']:.2f}",
        ]
        for row in found["rows"]
    ]  # fmt: skip
    head = ["tokens", "attention", "seconds", "spread", "x fused", "x transformers", "MB", "MB to fused"]
    print(table(head, lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds and bytes of attention over long texts.")
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--causal", action="store_true", help="no token sees what follows")
    parser.add_argument("--models", action="store_true", help="steps of training whole models")
    asked = arguments(parser, rounds=5, threads=torch.get_num_threads(), use="for all")
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    take = measure_models if asked.models else measure
    found = {**vars(asked), "machine": facts(), "rows": [row for n in asked.lengths for row in take(n, asked)]}
    show(found, tell, as_json=asked.json)


if __name__ == "__main__":
    main()
