"""Filling in: running text in, a model out that reads both ways and says what stands in a hole: how BERT begins."""

import math
from dataclasses import dataclass

from qkv.config import setting
from qkv.data import Rows, Windows
from qkv.models import Bert
from qkv.tasks.corpus import Scale
from qkv.tasks.filler import Filler
from qkv.tasks.running_text import OnRunningText, RunningTextConfig


@dataclass(frozen=True, kw_only=True)
class MaskedTextConfig(RunningTextConfig):
    """How running text becomes windows of ids with words to hide."""

    tokenizer: str = setting(
        "wordpiece", "how sub-words are learned, by a name of `qkv list tokenizers`; or a tokenizer.json to use"
    )


class Fill(OnRunningText):
    """Devlin et al. 2019 (BERT): plain text to a model that says what is hidden; other tasks begin with it."""

    name = "fill"
    kinds = (Bert,)
    architecture = "bert"
    objective = "masked_lm"
    figures = ("loss", "perplexity", "accuracy")
    data_class = MaskedTextConfig
    files = "plain text files or .jsonl with a text on each line, for example: qkv train wiki.txt --task fill"
    asks = 'qkv fill "A man in a red <mask>."'
    specials = ("<mask>",)
    opens = Filler
    scales = (
        (300_000, Scale(1_000, "tiny", 0.1, 2048, 40, 64), Scale(1_000, "tiny", 0.1, 4096, 40, 64)),
        (30_000_000, Scale(8_000, "mini", 0.1, 4096, 10, 128), Scale(8_000, "small", 0.1, 16384, 20, 128)),
        (math.inf, Scale(16_000, "mini", 0.1, 8192, 2, 128), Scale(30_000, "base", 0.1, 32768, 4, 512)),
    )
    rates = {"tiny": 1e-3, "mini": 1e-3, "small": 5e-4, "base": 1e-4}  # noqa: RUF012

    def windows(self, rows: Rows, length: int) -> Windows:
        """One less than the model reads, since <s> stands before them."""
        batch = max(1, self.data.batch_tokens // length)
        return Windows(rows, length=max(1, length - 1), batch=batch, seed=self.data.seed)
