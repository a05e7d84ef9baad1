"""A tiny corpus, and trainers and whole runs on it that take a second or two."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv import folder
from qkv.data import Batches, Corpus, write_shards
from qkv.models import Model, Transformer, TransformerConfig
from qkv.objectives import Translation
from qkv.text.tokenizer import Tokenizer
from qkv.training.settings import TrainingConfig
from qkv.training.trainer import Hooks, Trainer

WORDS = ["red", "green", "blue", "cat", "dog", "house", "tree", "bird", "fish", "sun", "moon", "star", "road", "hill"]
Pairs = list[tuple[str, str]]


def some_pairs(count: int) -> Pairs:
    """Different sentences of made-up words; the other language writes each word, and their order, backwards."""
    rng = random.Random(7)
    sources: dict[str, None] = {}
    while len(sources) < count:
        sources[" ".join(rng.choices(WORDS, k=rng.randint(2, 7)))] = None
    return [(source, source[::-1]) for source in sources]


def write_tsv(path: Path, pairs: Pairs) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    return some_pairs(200)


@pytest.fixture
def tsv(tmp_path: Path, pairs: Pairs) -> Path:
    return write_tsv(tmp_path / "pairs.tsv", pairs)


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Settings of a run of 60 steps, six to an epoch, in which everything random takes part."""
    return {
        "source": "en",
        "target": "ne",
        "data": {"vocab_size": 340, "batch_tokens": 400},
        "model": {"d_model": 16, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.2},
        "training": {
            "steps": 60, "checkpoint_steps": 7, "validate_every": 20, "threads": 1, "bleu_sentences": 4,
            "precision": "float32",
            "schedule": "inverse_square_root(warmup=20)", "learning_rate": 0.01, "average": "running(decay=0.9)",
        },
    }  # fmt: skip


@pytest.fixture(scope="session")
def tokenizer(pairs: Pairs) -> Tokenizer:
    return Tokenizer.train((text for pair in pairs for text in pair), vocab_size=340)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, tokenizer: Tokenizer) -> Corpus:
    place = tmp_path_factory.mktemp("corpus") / "train"
    write_shards(place, pairs, tokenizer, count=len(pairs), max_length=100)
    return Corpus.open(place, tokenizer.fingerprint)


@dataclass
class Workshop:
    """Trainers on the tiny corpus; what they report is kept in `events`."""

    tokenizer: Tokenizer
    corpus: Corpus
    place: Path
    events: list[dict[str, Any]] = field(default_factory=list)

    def model(self, **sizes: Any) -> Transformer:
        torch.manual_seed(3)
        small = {"d_model": 16, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "max_length": 128}
        return Transformer(TransformerConfig(vocab_size=len(self.tokenizer), norm="pre", **{**small, **sizes}))

    def trainer(
        self, out: str = "out", model: Model | None = None,
        judge: Callable[[Model], dict[str, float]] | None = None, tokens: int = 400, **settings: Any,
    ) -> Trainer:  # fmt: skip
        usual: dict[str, Any] = {
            "steps": 12,
            "threads": 1,
            "precision": "float32",
            "patience": 0,
            "schedule": "constant",
        }
        hooks = Hooks(
            judge or (lambda _: {"loss": 1.0}),
            lambda model, path: folder.save(path, model, self.tokenizer, {}),  # type: ignore[arg-type]
            self.events.append,
            self.place / out,
        )
        batches = Batches(self.corpus, tokens, seed=5)
        return Trainer(model or self.model(), Translation(), batches, TrainingConfig(**{**usual, **settings}), hooks)

    def named(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


@pytest.fixture
def workshop(tokenizer: Tokenizer, corpus: Corpus, tmp_path: Path) -> Workshop:
    torch.set_num_threads(1)
    return Workshop(tokenizer, corpus, tmp_path)


@pytest.fixture(scope="session")
def weights() -> Callable[[Model], dict[str, torch.Tensor]]:
    return lambda model: {name: value.detach().clone() for name, value in model.named_parameters()}


@pytest.fixture(scope="session")
def same() -> Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], bool]:
    """Equal to the bit, name by name."""
    return lambda a, b: a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
