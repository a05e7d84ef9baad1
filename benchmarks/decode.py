"""Decoding speed: qkv beside Hugging Face's generate, with the same weights, in one run.

    python benchmarks/decode.py --preset small --rounds 5

Both write exactly 24 tokens for each sentence: neither can choose an end before (its logit has a bias of -10,000). They
take turns, so that whatever else the machine does slows both. Figures are medians over rounds, in tokens a second of
finished text: a beam of 4 computes four times as many. "Same text" leaves out the last token, which is the forced end
for us and one more word for them; in a beam that word takes part in the ranking, so that a few texts may differ.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from peers import copied, marian
from qkv.decoding import beam_search, greedy
from qkv.models import PRESETS, Transformer, TransformerConfig
from qkv.text.tokenizer import BOS, EOS, PAD, UNK

TOKENS, VOCABULARY = 24, 8000
SETTINGS = [(1, 1), (1, 4), (32, 1), (32, 4)]  # sentences, beam
SHORTEST, LONGEST = 8, 24  # source tokens: what nine of ten sentences of Multi30k have
FLOATS = 2**26  # of the array that measures the bandwidth: 256 MB, larger than any cache

Write = Callable[[Tensor, int], list[list[int]]]  # source ids (B, S), beam -> the tokens of each sentence


def models(preset: str) -> tuple[Transformer, Any]:
    """One set of random weights in both; large enough for attention and choices to be far from uniform."""
    sizes = {**PRESETS[preset], "vocab_size": VOCABULARY, "max_length": 256, "output_bias": True}
    c = TransformerConfig(**sizes, attention_bias=True, position="sinusoidal(layout='halves')")
    torch.manual_seed(1)
    theirs = marian(c).eval()
    for parameter in theirs.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            nn.init.normal_(parameter, std=1.5 * c.d_model**-0.5)
    theirs.final_logits_bias[:, [PAD, BOS, EOS, UNK]] = -1e4
    return copied(theirs, c).eval(), theirs


def sentences(count: int) -> Tensor:
    """Source ids (B, S), padded, each with its end."""
    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(UNK + 1, VOCABULARY, (count, LONGEST), generator=generator)
    lengths = torch.linspace(LONGEST, SHORTEST, count).long()
    place = torch.arange(LONGEST)
    ids[place[None] == lengths[:, None] - 1] = EOS
    return ids.masked_fill(place[None] >= lengths[:, None], PAD)


def our_write(model: Transformer) -> Write:
    def write(src: Tensor, beam: int) -> list[list[int]]:
        limits = [TOKENS] * len(src)
        if beam == 1:
            return [found.tokens for found in greedy(model, src, limits)]
        return [found[0].tokens for found in beam_search(model, src, limits, beam=beam, alpha=1.0)]

    return write


def their_write(model: Any) -> Write:
    from transformers import GenerationConfig

    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    how = {
        beam: GenerationConfig(num_beams=beam, min_new_tokens=TOKENS, max_new_tokens=TOKENS, do_sample=False, **ids)  # type: ignore[no-untyped-call]
        for _, beam in SETTINGS
    }

    @torch.inference_mode()
    def write(src: Tensor, beam: int) -> list[list[int]]:
        found = model.generate(src, attention_mask=(src != PAD).long(), generation_config=how[beam])
        return [row[1:] for row in found.tolist()]

    return write


def decoder_bytes(c: TransformerConfig) -> int:
    """Weights that one decoding step reads: of each layer all but keys and values of the memory, and the vocabulary."""
    d, f = c.d_model, c.d_ff
    layer = 6 * (d * d + d) + 2 * d * f + f + d + 3 * 2 * d
    return 4 * (c.decoder_layers * layer + c.vocab_size * (d + 1))


def bandwidth() -> float:
    """Bytes a second at which this process reads memory, by the sum of an array that no cache holds."""
    array = torch.ones(FLOATS)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        array.sum()
        seconds.append(time.perf_counter() - began)
    return 4 * FLOATS / min(seconds)


def seconds_of(write: Write, src: Tensor, beam: int) -> float:
    began = time.perf_counter()
    write(src, beam)
    return time.perf_counter() - began


def race(ours: Write, theirs: Write, src: Tensor, beam: int, rounds: int) -> dict[str, Any]:
    """Both by turns; the first round only warms up, and its texts are compared."""
    written, expected = ours(src, beam), theirs(src, beam)
    if any(len(row) != TOKENS for row in expected) or any(len(row) != TOKENS - 1 for row in written):
        raise SystemExit(f"somebody did not write {TOKENS} tokens (ours are without the end, which is forced at last)")
    pairs = []
    for number in range(rounds):
        both = [(0, ours), (1, theirs)]
        taken = {who: seconds_of(write, src, beam) for who, write in (both if number % 2 else both[::-1])}
        pairs.append((taken[0], taken[1]))
    tokens = len(src) * TOKENS
    return {
        "sentences": len(src),
        "beam": beam,
        "qkv": tokens / median(own for own, _ in pairs),
        "marian": tokens / median(other for _, other in pairs),
        "ratio": median(other / own for own, other in pairs),
        "same": sum(own == other[:-1] for own, other in zip(written, expected, strict=True)),
    }


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    model, other = models(asked.preset)
    ours, theirs = our_write(model), their_write(other)
    rows = [race(ours, theirs, sentences(count), beam, asked.rounds) for count, beam in SETTINGS]
    read, speed = decoder_bytes(model.config), bandwidth()
    bound = {"decoder_mb": read / 1e6, "bandwidth_gb": speed / 1e9, "tokens_per_second": speed / read}
    return {"preset": asked.preset, "threads": torch.get_num_threads(), "rounds": asked.rounds, "tokens": TOKENS,
            "rows": rows, "bound": bound, "share_of_bound": rows[0]["qkv"] / bound["tokens_per_second"]}  # fmt: skip


def tell(found: dict[str, Any]) -> None:
    print(
        f"{found['preset']}, {TOKENS} tokens a sentence, {found['rounds']} rounds, {found['threads']} threads, float32"
    )
    print("\nsentences  beam   qkv tokens/s   marian tokens/s   ratio   same text")
    for row in found["rows"]:
        print(
            f"{row['sentences']:>9}{row['beam']:>6}{row['qkv']:>15,.0f}{row['marian']:>18,.0f}{row['ratio']:>8.2f}x"
            f"{row['same']:>7} of {row['sentences']}"
        )
    bound, small = found["bound"], found["bound"]["decoder_mb"] < 64
    print(
        f"\none step reads {bound['decoder_mb']:.1f} MB of decoder weights; at {bound['bandwidth_gb']:.1f} GB/s from "
        f"memory that is at most {bound['tokens_per_second']:,.0f} tokens/s for one sentence: greedy reaches "
        f"{found['share_of_bound']:.0%} of it{' (a large cache may hold so few weights and pass it)' if small else ''}"
    )
    ratios = [f"{row['ratio']:.2f} (batch {row['sentences']}, beam {row['beam']})" for row in found["rows"]]
    print(f"\nqkv decodes as fast as marian, times {', '.join(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding speed beside Hugging Face's MarianMTModel.generate.")
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    found = measure(asked)
    if asked.json:
        print(json.dumps(found))
    else:
        tell(found)


if __name__ == "__main__":
    main()
