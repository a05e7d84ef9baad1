"""Settings for a corpus and a machine, when a person gives none."""

from dataclasses import dataclass

import torch

from qkv.config import Tree
from qkv.training.settings import TrainingConfig


@dataclass(frozen=True)
class Corpus:
    """What is known of a corpus before its sub-words are learned."""

    pairs: int
    characters: int  # of both sides

    def steps(self, batch_tokens: int) -> int:
        """About how many batches an epoch has: a token takes some four letters, and each sentence an end."""
        return max(1, (self.characters // 8 + self.pairs) // batch_tokens)


# (pairs below, vocabulary, preset, dropout, tokens in a batch, epochs if no limit is given). Dropout falls as data
# grows; the first rows follow the published Multi30k baseline (tiny, dropout 0.3), the last the paper's base model.
CPU_SIZES = [
    (5_000, 2_000, "tiny", 0.3, 1024, 60),
    (60_000, 6_000, "tiny", 0.3, 2048, 40),
    (400_000, 8_000, "small", 0.2, 4096, 20),
    (4_000_000, 16_000, "small", 0.1, 4096, 5),
    (None, 16_000, "small", 0.1, 8192, 2),
]
GPU_SIZES = [
    (5_000, 2_000, "tiny", 0.3, 1024, 60),
    (60_000, 6_000, "tiny", 0.3, 4096, 60),
    (400_000, 8_000, "small", 0.2, 8192, 40),
    (4_000_000, 16_000, "base", 0.1, 16384, 20),
    (None, 32_000, "base", 0.1, 16384, 10),
]


def choose(corpus: Corpus, device: torch.device, asked: TrainingConfig) -> Tree:
    """A tree of settings; a recipe and flags, whose limits are in `asked`, are laid over it."""
    sizes = CPU_SIZES if device.type == "cpu" else GPU_SIZES
    row = next(row for row in sizes if row[0] is None or corpus.pairs < row[0])
    _, vocabulary, preset, dropout, tokens, epochs = row
    # A vocabulary cannot be larger than the text has room for: about one new sub-word in 20 characters.
    vocabulary = max(400, min(vocabulary, corpus.characters // 20))
    steps = corpus.steps(tokens)
    whole = min(epochs * steps, (asked.epochs or epochs) * steps, asked.steps or epochs * steps)  # of the run
    training: Tree = {
        "learning_rate": {"tiny": 3e-3, "small": 1e-3, "base": 7e-4}[preset],
        "schedule": f"cosine(warmup={min(400, max(10, int(whole) // 10))})",  # a tenth of the run, 400 at most
        "epochs": 0.0 if asked.steps or asked.epochs or asked.minutes else float(epochs),
        "validate_every": 0 if steps >= 100 else 100,  # once an epoch, unless epochs are short
    }
    return {
        "data": {"vocab_size": vocabulary, "batch_tokens": tokens},
        "model": {"preset": preset, "dropout": dropout, "norm": "pre"},
        "training": training,
    }
