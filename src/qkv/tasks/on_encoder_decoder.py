"""What tasks share whose models read one text and write another: sizes, settings, and what `qkv.load` gives."""

import math
from typing import Any, ClassVar

import torch

from qkv.config import Tree, merge
from qkv.data import Buckets, Stream
from qkv.decoding import Translator
from qkv.engines import open_translator
from qkv.errors import InputError
from qkv.folder import About, Loaded
from qkv.tasks.corpus import Corpus, Scale, Survey
from qkv.tasks.task import Task
from qkv.text.tokenizer import Tokenizer

VALID_TOKENS = 4096  # of a batch to validate on

# Examples below; on a CPU, on a GPU. Dropout falls as data grows; the first rows follow the published Multi30k baseline
# (tiny, dropout 0.3), the last the paper's base model.
SIZES: list[tuple[float, Scale, Scale]] = [
    (5_000, Scale(2_000, "tiny", 0.3, 1024, 60), Scale(2_000, "tiny", 0.3, 1024, 60)),
    (60_000, Scale(6_000, "tiny", 0.3, 2048, 40), Scale(6_000, "tiny", 0.3, 4096, 60)),
    (400_000, Scale(8_000, "small", 0.2, 4096, 20), Scale(8_000, "small", 0.2, 8192, 40)),
    (4_000_000, Scale(16_000, "small", 0.1, 4096, 5), Scale(16_000, "base", 0.1, 16384, 20)),
    (math.inf, Scale(16_000, "small", 0.1, 8192, 2), Scale(32_000, "base", 0.1, 16384, 10)),
]
RATES = {"tiny": 3e-3, "small": 1e-3, "base": 7e-4}


class OnEncoderDecoder(Task):
    """Vaswani et al. 2017, Figure 1: an encoder reads, a decoder writes. The data's settings have `max_length`."""

    architecture = "transformer"
    search = {"beam": 5, "alpha": 1.0}  # noqa: RUF012
    asks = 'qkv translate "..."'
    speed = "tokens"
    unique = True
    opens: ClassVar[type[Any]] = Translator
    rates: ClassVar[dict[str, float]] = RATES

    def validation(self, rows: Any) -> Stream:
        return Buckets(rows, tokens=VALID_TOKENS, seed=self.data.seed, sizes=self.sizes)

    def told(self) -> Tree:
        """Settings of the data that its files tell."""
        return {}

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        count, characters = len(survey.train), survey.characters
        scale = next(cpu if device.type == "cpu" else gpu for below, cpu, gpu in SIZES if count < below)
        steps = max(1, (characters // 8 + count) // scale.tokens)  # a token takes some four letters, a sentence an end
        return merge(
            scale.settings(characters, steps, training, RATES),
            {"data": self.told(), "model": {"norm": "pre"}},
            {"training": {"validate_every": 0 if steps >= 100 else 100}},  # once an epoch, unless epochs are short
        )

    def needed(self) -> tuple[int, str]:
        """The context that texts need, and what it is made of."""
        return self.data.max_length + 2, "data.max_length and two more"

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        longest, lengths = self.needed()
        if model.get("max_length", longest) < longest:
            raise InputError(f"model.max_length must be at least {longest}: {lengths}; leave it out, or make them less")
        fitted: Tree = {"vocab_size": len(tokenizer), "max_length": model.get("max_length", max(longest, 256))}
        if any("scope" in str(model.get(key, "")) for key in ("attention", "encoder_attention")):
            fitted["sentence_ends"] = tokenizer.sentence_ends()
        return fitted

    def about(self, corpus: Corpus) -> About:
        lengths = (corpus.train.lengths(shard)[:, 0] for shard in range(corpus.train.shards))
        return {**super().about(corpus), "longest_source": max(int(some.max(initial=1)) for some in lengths) - 1}

    def open(self, loaded: Loaded, **how: Any) -> Translator:
        return open_translator(loaded, **how)
