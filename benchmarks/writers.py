"""Who writes translations in the decoding benchmarks: qkv, CTranslate2 and Hugging Face, all with the same weights.

All write exactly as many tokens as asked for: nobody can choose an end before, since its logit has a bias of -10,000.
Ours then has one word less and the forced end, which is as many steps.
"""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from corpus import VOCABULARY, whole_vocabulary
from peers import copied, marian
from qkv.convert.ctranslate2 import write_ctranslate2
from qkv.convert.native import write
from qkv.decoding import Search
from qkv.engines.native.library import NOT_BUILT, is_built
from qkv.engines.native.library import Native as NativeFile
from qkv.engines.native.writer import NativeWriter
from qkv.models import PRESETS, Transformer, TransformerConfig
from qkv.text.tokenizer import BOS, EOS, PAD, UNK

LOUD = 10.0  # feed-forward beside attention
Texts = list[list[int]]  # the tokens of each sentence


class Writer(Protocol):
    """One library in one precision; a request is a batch of source ids (B, S)."""

    name: str
    precision: str

    def ready(self, src: Tensor) -> Any:
        """The request as this library takes it; making it is not timed."""
        ...

    def write(self, request: Any, beam: int, tokens: int) -> Texts:
        """One request on one thread."""
        ...

    def write_all(self, requests: Sequence[Any], beam: int, tokens: int) -> list[Texts]:
        """Several requests, on all cores."""
        ...


class Qkv:
    """Our engine in C++; side by side in threads, each with a request of its own."""

    name = "qkv"

    def __init__(self, model: Transformer, bits: int, file: Path, cores: int) -> None:
        write(file, model, bits=bits)
        self.engine, self.cores = NativeWriter.of(model, NativeFile(file)), cores
        self.precision = self.engine.name

    def ready(self, src: Tensor) -> Texts:
        return [[number for number in row if number not in (PAD, EOS)] for row in src.tolist()]

    def write(self, request: Texts, beam: int, tokens: int) -> Texts:
        found = self.engine.decode(request, [tokens] * len(request), Search(beam=beam))
        return [some[0].tokens for some in found]

    def write_all(self, requests: Sequence[Texts], beam: int, tokens: int) -> list[Texts]:
        with ThreadPoolExecutor(self.cores) as pool:
            return list(pool.map(lambda request: self.write(request, beam, tokens), requests))


class CTranslate2:
    """One translator with one thread for latency, another with one worker for each core for throughput."""

    name = "CTranslate2"

    def __init__(self, folder: Path, precision: str, cores: int, words: list[str]) -> None:
        import ctranslate2

        self.precision, self.words, self.ids = precision, words, {word: number for number, word in enumerate(words)}
        self.single, self.several = (
            ctranslate2.Translator(str(folder), compute_type=precision, inter_threads=workers, intra_threads=1)
            for workers in (1, cores)
        )

    def ready(self, src: Tensor) -> list[list[str]]:
        return [[self.words[number] for number in row if number not in (PAD, EOS)] for row in src.tolist()]

    def options(self, beam: int, tokens: int) -> dict[str, Any]:
        return {"beam_size": beam, "min_decoding_length": tokens, "max_decoding_length": tokens, "max_input_length": 0}

    def write(self, request: list[list[str]], beam: int, tokens: int) -> Texts:
        return self.read(self.single.translate_batch(request, **self.options(beam, tokens)))

    def write_all(self, requests: Sequence[list[list[str]]], beam: int, tokens: int) -> list[Texts]:
        how = self.options(beam, tokens)
        running = [self.several.translate_batch(request, asynchronous=True, **how) for request in requests]
        return [self.read([sentence.result() for sentence in some]) for some in running]

    def read(self, results: list[Any]) -> Texts:
        return [[self.ids[word] for word in result.hypotheses[0]] for result in results]


class HuggingFace:
    """MarianMTModel.generate; on all cores it has one request at a time, and torch's own threads."""

    name, precision = "Hugging Face", "float32"

    def __init__(self, model: Any, cores: int) -> None:
        self.model, self.cores = model, cores

    def ready(self, src: Tensor) -> Tensor:
        return src

    @torch.inference_mode()
    def write(self, request: Tensor, beam: int, tokens: int) -> Texts:
        found = self.model.generate(
            request, attention_mask=(request != PAD).long(), generation_config=generation(beam, tokens)
        )
        return [row[1:] for row in found.tolist()]

    def write_all(self, requests: Sequence[Tensor], beam: int, tokens: int) -> list[Texts]:
        before = torch.get_num_threads()
        torch.set_num_threads(self.cores)
        written = [self.write(request, beam, tokens) for request in requests]
        torch.set_num_threads(before)
        return written


@lru_cache
def generation(beam: int, tokens: int) -> Any:
    from transformers import GenerationConfig

    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    return GenerationConfig(num_beams=beam, min_new_tokens=tokens, max_new_tokens=tokens, do_sample=False, **ids)  # type: ignore[no-untyped-call]


@torch.no_grad()
def models(preset: str) -> tuple[Transformer, Any]:
    """One set of random weights in both, made so that texts vary: else all would say one word for ever.

    Feed-forward, which sees the last word alone, is louder than attention, whose context changes little from step to
    step; and its rows sum to 0, so that what ReLU adds on average to every word cancels out.
    """
    sizes = {**PRESETS[preset], "vocab_size": VOCABULARY, "max_length": 256, "output_bias": True}
    c = TransformerConfig(**sizes, attention_bias=True, position="sinusoidal(layout='halves')")
    torch.manual_seed(1)
    theirs = marian(c).eval()
    for parameter in theirs.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            nn.init.normal_(parameter, std=1.5 * c.d_model**-0.5)
    for layer in theirs.model.decoder.layers:
        layer.fc2.weight.sub_(layer.fc2.weight.mean(dim=1, keepdim=True)).mul_(LOUD)
        for attention in (layer.self_attn, layer.encoder_attn):
            attention.out_proj.weight.div_(LOUD)
    theirs.final_logits_bias[:, [PAD, BOS, EOS, UNK]] = -1e4
    return copied(theirs, c).eval(), theirs


def sentences(count: int, shortest: int, longest: int) -> Tensor:
    """Source ids (B, S), padded, each with its end; lengths are spread evenly."""
    generator = torch.Generator().manual_seed(count)
    ids = torch.randint(UNK + 1, VOCABULARY, (count, longest), generator=generator)
    lengths = torch.linspace(longest, shortest, count).long()
    place = torch.arange(longest)
    ids[place[None] == lengths[:, None] - 1] = EOS
    return ids.masked_fill(place[None] >= lengths[:, None], PAD)


def writers(preset: str, cores: int, folder: Path) -> tuple[TransformerConfig, list[Writer]]:
    """Hugging Face first: it is whom the others' tokens are compared with."""
    model, theirs = models(preset)
    found: list[Writer] = [HuggingFace(theirs, cores)]
    if is_built():
        with tempfile.TemporaryDirectory() as place:  # the files stay mapped
            found += [Qkv(model, bits, Path(place) / f"{bits}.qkv", cores) for bits in (32, 8)]
    else:
        print(f"qkv is left out: {NOT_BUILT}")
    if find_spec("ctranslate2"):
        tokenizer = whole_vocabulary()
        write_ctranslate2(folder, model, tokenizer, {})
        found += [CTranslate2(folder, precision, cores, tokenizer.vocabulary()) for precision in ("float32", "int8")]
    else:
        print("CTranslate2 is left out: it is not installed")
    return model.config, found
