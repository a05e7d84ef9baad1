"""A tiny corpus, and trainers and whole runs on it that take a second or two."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from kit import Pairs, some_pairs, write_tsv
from qkv import folder
from qkv.data import Buckets, Rows, RowsInMemory
from qkv.models import Model, Transformer, TransformerConfig
from qkv.objectives import Translation
from qkv.tasks.translation import PairsConfig, Translate
from qkv.text import Pair
from qkv.text.tokenizer import Tokenizer
from qkv.training.settings import TrainingConfig
from qkv.training.trainer import Hooks, Trainer


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
def rows(pairs: Pairs, tokenizer: Tokenizer) -> Rows:
    examples = [Pair(source, target, "") for source, target in pairs]
    return RowsInMemory(Translate(PairsConfig()).encode(examples, tokenizer, {}))


@dataclass
class Workshop:
    """Trainers on the tiny corpus; what they report is kept in `events`."""

    tokenizer: Tokenizer
    rows: Rows
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
        model = model or self.model()
        hooks = Hooks(
            judge or (lambda _: {"loss": 1.0}),
            lambda weights, path: folder.save(path, model, self.tokenizer, {}, weights),
            self.events.append,
            self.place / out,
        )
        batches = Buckets(self.rows, tokens=tokens, seed=5, sizes=(0, 1))
        return Trainer(model, Translation(), batches, TrainingConfig(**{**usual, **settings}), hooks)

    def named(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


@pytest.fixture
def workshop(tokenizer: Tokenizer, rows: Rows, tmp_path: Path) -> Workshop:
    torch.set_num_threads(1)
    return Workshop(tokenizer, rows, tmp_path)
