"""Speed of writing: qkv's GPT-2 beside transformers' generate and CTranslate2, with the same weights, in one run.

    python benchmarks/generate.py --preset small --rounds 5

Everybody goes on greedily from the same prompts of 8 to 24 tokens, by 64 tokens each, with keys and values kept, by
turns; prompts are padded on the left. Figures are medians over rounds of one request, on all cores unless `--threads`
says otherwise. "Equal tokens" is the share that stands where transformers has it: after one other choice all that
follows is another text, so that random weights in 8 bits say little of a trained model (`qkv quantize` measures that).

A step reads every weight once, however many prompts there are: "weights read" is at what rate, to be held against the
measured bandwidth of memory. "Of ceiling" is the share of what the machine could write if it did nothing but the
products: prompts at the measured GEMM rate, and no step faster than at that rate or than its weights can be read from
memory. A cache that holds all weights of a small model may pass it.
"""

import argparse
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from figures import arguments, by_turns, show, spread, table, times_as_fast
from machine import BYTES, Rates, facts, least, rates
from qkv.convert.families.gpt import GPT2 as FAMILY
from qkv.convert.family import our_settings, our_weights, plain
from qkv.convert.native import write
from qkv.decoding import Engine, Plain, Search
from qkv.engines.native.kept import in_memory
from qkv.engines.native.library import Native
from qkv.engines.native.writer import NativeWriter
from qkv.engines.quantize import smoothing, tokens_agree
from qkv.folder import fill
from qkv.models import GPT2
from qkv.models import GPT2Config as OurConfig
from qkv.text.tokenizer import PAD, UNK

SIZES = {  # transformers' names
    "tiny": {"n_layer": 4, "n_embd": 128, "n_head": 4, "vocab_size": 2000},
    "small": {"n_layer": 6, "n_embd": 256, "n_head": 4, "vocab_size": 8000},
    "base": {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257},
}
TOKENS, SHORTEST, LONGEST, CONTEXT = 64, 8, 24, 256
CALIBRATED = 16  # prompts that say how wide the channels are
Texts = list[list[int]]


@torch.no_grad()
def models(preset: str) -> tuple[GPT2, Any]:
    """One set of random weights in both, large enough for clear choices; special tokens are worth nothing."""
    from transformers import GPT2Config, GPT2LMHeadModel

    c = GPT2Config(**SIZES[preset], n_positions=CONTEXT, initializer_range=0.1)
    torch.manual_seed(1)
    theirs = GPT2LMHeadModel(c).eval()
    theirs.transformer.wte.weight[: UNK + 1] = 0
    own = GPT2(OurConfig(**our_settings(FAMILY, c.to_dict(), "theirs"), vocab_size=c.vocab_size)).eval()
    named = {plain(name, FAMILY.prefix): value for name, value in theirs.state_dict().items()}
    fill(own, our_weights(FAMILY, named, None, range(c.vocab_size), 0, ""), Path("theirs"))
    return own, theirs


def prompts(count: int, vocabulary: int) -> Texts:
    rng = torch.Generator().manual_seed(count)
    lengths = torch.linspace(LONGEST, SHORTEST, count).long().tolist()
    return [torch.randint(UNK + 1, vocabulary, (length,), generator=rng).tolist() for length in lengths]


def in_bytes(model: GPT2, place: Path) -> NativeWriter:
    """8 bits by our engine."""
    write(place / "int8.qkv", model, smooth=smoothing(model, prompts(CALIBRATED, model.config.vocab_size)))
    return NativeWriter.of(model, Native(place / "int8.qkv"))


def by_qkv(engine: Engine, given: Texts) -> Texts:
    found = engine.decode(given, [TOKENS] * len(given), Search(beam=1, ends="never"))
    return [some[0].tokens for some in found]


@torch.inference_mode()
def by_transformers(model: Any, how: Any, given: Tensor) -> Texts:
    found = model.generate(given, attention_mask=(given != PAD).long(), generation_config=how)
    texts: Texts = found[:, given.size(1) :].tolist()
    return texts


def ctranslate2_generator(theirs: Any, threads: int, place: Path) -> Any:
    """transformers' weights in CTranslate2, whose products are in 8 bits; a word is spelled as its number."""
    import ctranslate2
    from ctranslate2.converters.transformers import GPT2Loader

    spec, words = GPT2Loader().get_model_spec(theirs), [str(i) for i in range(theirs.config.vocab_size)]
    spec.register_vocabulary(words)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = words[PAD]
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(place))
    return ctranslate2.Generator(str(place), compute_type="int8", inter_threads=1, intra_threads=threads)


def by_ctranslate2(generator: Any, given: Texts) -> Texts:
    prompts = [[str(number) for number in row] for row in given]
    found = generator.generate_batch(
        prompts, min_length=TOKENS, max_length=TOKENS, sampling_topk=1, include_prompt_in_result=False,
    )  # fmt: skip
    return [one.sequences_ids[0] for one in found]


def matrices(c: OurConfig) -> int:
    """Weights that a step reads: 4 d^2 + 2 d f of each layer, and the vocabulary."""
    d, f = c.d_model, c.d_ff or 4 * c.d_model
    return c.layers * (4 * d * d + 2 * d * f) + c.vocab_size * d


def floor(c: OurConfig, given: Texts, precision: str, most: Rates) -> float:
    """Seconds that a request takes at least: its prompts at the machine's rate, all weights read in each step."""
    prompts = sum(map(len, given)) * (matrices(c) - c.vocab_size * c.d_model)  # what follows inside of one is not asked
    return 2 * prompts / most[precision] + TOKENS * least(matrices(c), len(given), precision, most)


def race(
    own: GPT2, engines: dict[str, Engine], theirs: Any, other: Any, count: int, rounds: int, most: Rates
) -> list[dict[str, Any]]:
    """`other` is CTranslate2's generator, if there is one."""
    from transformers import GenerationConfig

    given, plain = prompts(count, own.config.vocab_size), Plain(own)
    how = GenerationConfig(max_new_tokens=TOKENS, do_sample=False, use_cache=True, pad_token_id=PAD, eos_token_id=None)
    runs = {
        "transformers": partial(by_transformers, theirs, how, plain.given(given)),
        **{f"qkv {name}": partial(by_qkv, engine, given) for name, engine in engines.items()},
    }
    if other:
        runs["CTranslate2 int8"] = partial(by_ctranslate2, other, given)
    texts = {name: run() for name, run in runs.items()}  # which warms up, too
    seconds = by_turns(runs, rounds)
    return [
        {
            "prompts": count, "who": name, "ms": 1000 * median(taken), "spread": spread(taken),
            "tokens_per_second": count * TOKENS / median(taken),
            "as_fast": times_as_fast(taken, seconds["transformers"]),
            **({"to_ctranslate2": times_as_fast(taken, seconds["CTranslate2 int8"])} if other else {}),
            "read_gb_per_second": TOKENS * BYTES[bits] * matrices(own.config) / median(taken) / 1e9,
            "of_ceiling": floor(own.config, given, bits, most) / median(taken),
            "equal_tokens": tokens_agree(texts[name], texts["transformers"]),
        }
        for name, taken in seconds.items()
        for bits in ["int8" if name.endswith("int8") else "float32"]
    ]  # fmt: skip


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(asked.threads)
    own, theirs = models(asked.preset)
    most = rates(asked.threads, BYTES)
    with tempfile.TemporaryDirectory() as place:
        other = ctranslate2_generator(theirs, asked.threads, Path(place)) if find_spec("ctranslate2") else None
        engines = {
            "plain": Plain(own),
            "float32": NativeWriter.of(own, in_memory(own)),
            "int8": in_bytes(own, Path(place)),
        }
        asks = [(own, engines, theirs, other, count, asked.rounds, most) for count in asked.prompts]
        rows = [row for ask in asks for row in race(*ask)]
    about = {"preset": asked.preset, "machine": facts(), "threads": asked.threads, "rounds": asked.rounds}
    read_mb = BYTES["float32"] * matrices(own.config) / 1e6
    return {**about, "tokens": TOKENS, "ceilings": most, "read_mb_a_step": read_mb, "rows": rows}


def tell(found: dict[str, Any]) -> None:
    most = found["ceilings"]
    print(
        f"\n### {found['preset']}, writing after prompts\n\n{found['tokens']} tokens a prompt, greedy, "
        f"{found['rounds']} rounds, threads: {found['threads']}; {found['read_mb_a_step']:,.0f} MB of weights a step "
        f"in float32; ceilings: {most['float32'] / 1e9:,.0f} GFLOP/s, {most['int8'] / 1e9:,.0f} GOP/s in int8, "
        f"{most['bytes'] / 1e9:,.1f} GB/s from memory; "
        f"{found['machine']}\n"
    )
    head = ["prompts", "who", "ms a request", "spread", "tokens/s", "to transformers", "to CTranslate2 int8",
            "weights read", "of ceiling"]  # fmt: skip
    rows = [
        [str(row["prompts"]), row["who"], f"{row['ms']:,.0f}", f"{row['spread']:.0%}",
         f"{row['tokens_per_second']:,.0f}", f"{row['as_fast']:.2f}x",
         f"{row['to_ctranslate2']:.2f}x" if "to_ctranslate2" in row else "-",
         f"{row['read_gb_per_second']:.1f} GB/s", f"{row['of_ceiling']:.0%}", f"{row['equal_tokens']:.0%}"]
        for row in found["rows"]
    ]  # fmt: skip
    print(table([*head, "equal tokens"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of writing beside transformers.")
    parser.add_argument("--preset", choices=SIZES, default="small")
    parser.add_argument("--prompts", type=int, nargs="+", default=[1, 32])
    asked = arguments(parser, rounds=5, threads=torch.get_num_threads(), use="of each request")
    show(measure(asked), tell, as_json=asked.json)


if __name__ == "__main__":
    main()
