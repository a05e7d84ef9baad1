"""Language modelling: running text in, a model out that writes on and says how likely a text is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qkv.config import Tree, setting
from qkv.data import RunningText
from qkv.decoding import Generator
from qkv.engines import open_generator
from qkv.evaluation.ngrams import interpolated_trigram
from qkv.evaluation.perplexity import Likelihood
from qkv.folder import About, Loaded
from qkv.models import CausalBackbone
from qkv.tasks.corpus import Corpus, Scale, Survey
from qkv.tasks.running_text import OnRunningText, RunningTextConfig
from qkv.text.examples import Text
from qkv.text.tokenizer import Tokenizer

COUNTED = 10**7  # tokens up to which trigrams are counted: a second for a million, and some 100 MB


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(RunningTextConfig):
    """How running text becomes windows of ids for a language model."""

    backward: bool = setting(False, "read all text from its end to its beginning (ULMFiT's second model)")


class LanguageModel(OnRunningText):
    """Radford et al. 2019 (GPT-2): plain text to a model that writes on; what qkv train does with plain text."""

    name = "language_model"
    kinds = (CausalBackbone,)
    architecture = "gpt2"
    objective = "causal_lm"
    figures = ("loss", "perplexity")
    files = "plain text files or .jsonl with a text on each line, for example: qkv train book.txt more/*.txt"
    asks = 'qkv generate "Once upon a time"'
    scales = (
        (300_000, Scale(1_000, "tiny", 0.2, 2048, 20, 128), Scale(1_000, "tiny", 0.2, 4096, 20, 128)),
        (3_000_000, Scale(4_000, "tiny", 0.1, 4096, 10, 128), Scale(4_000, "small", 0.2, 8192, 20, 256)),
        (30_000_000, Scale(8_000, "small", 0.1, 4096, 4, 256), Scale(16_000, "small", 0.1, 16384, 10, 512)),
        (math.inf, Scale(16_000, "small", 0.0, 8192, 1, 256), Scale(32_000, "base", 0.1, 32768, 2, 1024)),
    )
    data_class = LanguageModelConfig
    rates = {"tiny": 1e-3, "small": 6e-4, "base": 3e-4}  # noqa: RUF012

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        return {"backward": True} if self.data.backward else {}

    @property
    def backward(self) -> bool:
        return bool(self.data.backward)

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        train, valid = RunningText(corpus.train), RunningText(corpus.valid)
        if len(train) > COUNTED or len(valid) < 4:
            return {}
        way = -1 if self.backward else 1
        read, asked = (text[slice(0, len(text))][::way].copy() for text in (train, valid))
        return {"interpolated trigrams": interpolated_trigram(read, asked, len(corpus.tokenizer))}

    def evaluate(self, loaded: Loaded, examples: Sequence[Text], **how: Any) -> Tree:
        """Perplexity by token and by word, and bits by character, of all documents together."""
        documents: list[list[str]] = []
        for piece in examples:
            if piece.begins:
                documents.append([])
            documents[-1].append(piece.text)
        found = sum(
            self.open(loaded, engine="float32").score(["".join(pieces) for pieces in documents]),
            Likelihood(0.0, 0, 0, 0),
        )
        return {
            "loss": found.nats / found.tokens, "perplexity": found.perplexity,
            "word_perplexity": found.word_perplexity, "bits_per_character": found.bits_per_character,
        }  # fmt: skip

    def open(self, loaded: Loaded, **how: Any) -> Generator:
        return open_generator(loaded, **how)
