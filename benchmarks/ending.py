"""A model folder whose random weights end their sentences, for benchmarks that need a whole program and no training.

python benchmarks/ending.py PRESET FOLDER LINES [TEXT]

Random weights never end a sentence, or say one word for ever, which qkv would notice and decode again. Here two of the
model's dimensions, sine and cosine of one wavelength, carry the place of a token and nothing else: no table and no
block writes into them. The end's row of the output table reads their difference, which grows with the place and passes
0 after `PLACE` tokens, whatever stands before. Each other row is what the word before it reads as: so each word is
followed by the next one of the vocabulary, and what the first is depends on the source. All write about as many tokens
as Multi30k's sentences have. The sizes are a trained model's, with two tables more, since none are tied.
"""

import math
import sys
from pathlib import Path
from typing import cast

import torch
from torch import nn

from corpus import VOCABULARY, multi30k
from qkv import folder
from qkv.convert import digest, exporting
from qkv.convert.native import write
from qkv.engines.native.reader import FILE
from qkv.layers import Block
from qkv.models import PRESETS, Transformer, TransformerConfig
from qkv.text.lines import read_lines
from qkv.text.tokenizer import EOS, Tokenizer

PLACE = 12  # tokens after which the end becomes probable; Multi30k's sentences have 14 by their median
STEEP = 30.0  # of the end's logit
QUIET = 0.2  # blocks beside the embedding, so that the last word decides


@torch.no_grad()
def ending(preset: str, vocabulary: int) -> Transformer:
    sizes = {**PRESETS[preset], "vocab_size": vocabulary, "max_length": 256, "norm": "pre", "tied": "none"}
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(**sizes))
    d = model.config.d_model
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.5 * d**-0.5)
    wavelength = PLACE / (math.pi / 4)  # where sine and cosine meet, divided by 2 pi
    pair = 2 * round(d / 2 * math.log(wavelength) / math.log(10_000))  # of dimensions: Vaswani et al. 2017, section 3.5
    both = slice(pair, pair + 2)
    model.target.weight[:, both] = 0
    for block in model.decoder.blocks:
        own = cast(Block, block)
        for linear in (own.attention.output, own.memory_attention.output, own.feed_forward.contract):
            linear.weight *= QUIET
            linear.weight[both] = 0
            if linear.bias is not None:
                linear.bias[both] = 0
    cast(nn.LayerNorm, model.decoder.norm).weight[both] = 8.0  # so that 8 bits tell one place from the next
    model.vocabulary.weight.copy_(model.target.weight.roll(1, dims=0))
    model.vocabulary.weight[EOS] = 0
    model.vocabulary.weight[EOS, both] = torch.tensor([STEEP, -STEEP])
    return model.eval()


def prepare(preset: str, path: Path, lines: int, text: Path | None) -> None:
    """The model folder, unless it is there, and all that contestants need beside it; and the lines to translate."""
    pairs = multi30k()[0] if text is None or preset in PRESETS else []
    if preset in PRESETS:
        tokenizer = Tokenizer.train((text for pair in pairs for text in pair), vocab_size=VOCABULARY)
        folder.save(path, ending(preset, len(tokenizer)), tokenizer, {"source": "en", "target": "de"})
    source = list(read_lines(text)) if text else [source for source, _ in pairs]
    others(path, source[:lines])


def others(path: Path, lines: list[str]) -> None:
    """The lines as `source.txt`, the 8-bit form, and two CTranslate2 folders."""
    loaded = folder.load(path)
    (path / "source.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name, precision in (("ctranslate2", ""), ("ctranslate2-int8", "int8")):
        with exporting("ctranslate2", path, path / name, loaded.model, loaded.tokenizer, loaded.about, precision):
            pass
    write(path / FILE, loaded.model, made_of=digest(path))


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
