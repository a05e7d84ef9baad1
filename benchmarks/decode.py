"""Decoding speed: qkv beside CTranslate2 and Hugging Face's generate, with the same weights, in one run.

    python benchmarks/decode.py --preset small base --rounds 5
    python benchmarks/decode.py --preset small base --cpu avx2     # all of them held to older instructions

Everybody writes exactly 24 tokens for each sentence, by turns. Two tables: the latency of one request (one thread, one
request at a time), and the throughput of the machine (as many requests side by side as there are cores). Ratios are to
CTranslate2's int8. Figures are medians over rounds, in tokens a second of finished text: a beam of 4 computes four
times as many.

"Of ceiling" is the share of what the machine could write if it did nothing but the products: encoder and steps at the
measured GEMM rate of the same precision, and no step faster than its weights can be read from memory. A cache that
holds all weights of a small model may pass it. "Equal tokens" is the share that stands where Hugging Face has it,
without the last one, which is the forced end for us and one more word for the others; in a beam it takes part in the
ranking, so that the last few words may be those of another hypothesis. After one other choice all that follows is
another text, and random weights choose between near equals: the shares of 8 bits, ours and CTranslate2's, can be
compared with each other, but say nothing of a trained model (`qkv quantize` measures that).
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from figures import CPUS, arguments, by_turns, hold_to, show, spread, table, times_as_fast
from machine import BYTES, Rates, facts, least, rates
from qkv.engines.quantize import tokens_agree
from qkv.models import PRESETS, TransformerConfig
from qkv.text.tokenizer import PAD
from writers import Writer, sentences, writers

TOKENS = 24
RIVAL = "CTranslate2 int8"  # whom all are compared with
SETTINGS = [(1, 1), (1, 4), (32, 1), (32, 4)]  # sentences, beam
SHORTEST, LONGEST = 8, 24  # source tokens: what nine of ten sentences of Multi30k have
REQUESTS = {1: 4, 32: 1}  # by their sentences: how many for each core, so that a round is no blink


def floor(c: TransformerConfig, src: Tensor, beam: int, tokens: int, precision: str, most: Rates) -> float:
    """Seconds that a request takes at least: its products at the machine's rate, its weights read in each step.

    An encoder layer has 4 d^2 + 2 d f weights for each source token, and each decoder layer 2 d^2 more for the keys
    and values of the memory. A step reads of each decoder layer 6 d^2 + 2 d f, and the vocabulary.
    """
    d, f = c.d_model, c.d_ff
    source = int((src != PAD).sum())
    encoder = source * (c.encoder_layers * (4 * d * d + 2 * d * f) + c.decoder_layers * 2 * d * d)
    weights = c.decoder_layers * (6 * d * d + 2 * d * f) + c.vocab_size * d
    return 2 * encoder / most[precision] + tokens * least(weights, len(src) * beam, precision, most)


def race(
    c: TransformerConfig, everyone: list[Writer], count: int, beam: int, rounds: int, cores: int, most: Rates
) -> list[dict[str, Any]]:
    """One setting; with `cores` = 0, one request on one thread. The first run warms up, and its texts are compared."""
    src = sentences(count, SHORTEST, LONGEST)
    requests = max(1, REQUESTS[count] * cores)
    runs, texts = dict[str, Callable[[], Any]](), dict[str, list[list[int]]]()
    for who in everyone:
        ready, name = who.ready(src), f"{who.name} {who.precision}"
        all_ = partial(who.write_all, [ready] * requests, beam, TOKENS)
        runs[name] = all_ if cores else partial(who.write, ready, beam, TOKENS)
        texts[name] = [row[: TOKENS - 1] for row in (all_()[-1] if cores else who.write(ready, beam, TOKENS))]
        if any(len(row) != TOKENS - 1 for row in texts[name]):
            raise SystemExit(f"{name} did not write {TOKENS} tokens")
    seconds = by_turns(runs, rounds)
    rival = RIVAL if RIVAL in seconds else next(iter(seconds))
    rows = []
    for who, name in zip(everyone, seconds, strict=True):
        taken = median(seconds[name]) / requests
        rows.append({
            "sentences": count, "beam": beam, "who": name, "ms": 1000 * taken, "spread": spread(seconds[name]),
            "tokens_per_second": count * TOKENS / taken,
            "as_fast": times_as_fast(seconds[name], seconds[rival]), "rival": rival,
            "of_ceiling": floor(c, src, beam, TOKENS, who.precision, most) / taken,
            "equal_tokens": tokens_agree(texts[name], next(iter(texts.values()))),
        })  # fmt: skip
    return rows


def measure(asked: argparse.Namespace, preset: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    most = {"latency": rates(1, BYTES), "throughput": rates(asked.threads, BYTES)}
    machine = facts() + f", all held to {asked.cpu}" * bool(asked.cpu)
    found: dict[str, Any] = {"preset": preset, "machine": machine, "threads": asked.threads, "ceilings": most}
    with tempfile.TemporaryDirectory() as folder:
        c, everyone = writers(preset, asked.threads, Path(folder))
        for kind, cores in (("latency", 0), ("throughput", asked.threads)):
            settings = [(count, beam) for count, beam in SETTINGS if count in asked.sentences]
            races = [race(c, everyone, *setting, asked.rounds, cores, most[kind]) for setting in settings]
            found[kind] = [row for rows in races for row in rows]
    return {**found, "rounds": asked.rounds, "tokens": TOKENS}


def tell(every: list[dict[str, Any]]) -> None:
    for found in every:
        tell_one(found)


def tell_one(found: dict[str, Any]) -> None:
    titles = {
        "latency": "latency: one request, one thread",
        "throughput": f"throughput: requests side by side on {found['threads']} cores",
    }
    head = ["sentences", "beam", "who", "ms a request", "spread", "tokens/s", "to CTranslate2 int8", "of ceiling"]
    for kind, title in titles.items():
        most = found["ceilings"][kind]
        said = ", ".join(f"{most[precision] / 1e9:,.0f} GOP/s in {precision}" for precision in BYTES)
        print(f"\n### {found['preset']}, {title}\n\n{TOKENS} tokens a sentence, {found['rounds']} rounds; ", end="")
        print(f"ceilings: {said}, {most['bytes'] / 1e9:,.1f} GB/s from memory; {found['machine']}\n")
        rows = [
            [str(row["sentences"]), str(row["beam"]), row["who"], f"{row['ms']:,.0f}", f"{row['spread']:.0%}",
             f"{row['tokens_per_second']:,.0f}", f"{row['as_fast']:.2f}x", f"{row['of_ceiling']:.0%}",
             f"{row['equal_tokens']:.0%}"]
            for row in found[kind]
        ]  # fmt: skip
        print(table([*head, "equal tokens"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding speed beside CTranslate2 and Hugging Face.")
    parser.add_argument("--preset", nargs="+", choices=PRESETS, default=["small", "base"])
    parser.add_argument("--cpu", choices=CPUS, default="", help="instructions that all are held to; the newest if none")
    parser.add_argument("--sentences", type=int, nargs="+", choices=REQUESTS, default=list(REQUESTS))
    asked = arguments(parser, rounds=5, threads=torch.get_num_threads(), use="cores for throughput")
    hold_to(asked.cpu)
    show([measure(asked, preset) for preset in asked.preset], tell, as_json=asked.json)


if __name__ == "__main__":
    main()
