"""The models and sentences that decoding is tested with: engines must find the same."""

from pathlib import Path

import pytest

from kit import TEXTS, save_untrained, tokenizer
from searches import make_model, model, pad, sources

__all__ = ["make_model", "model", "pad", "sources"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A translator's folder."""
    return save_untrained(tmp_path / "model", "transformer", tokenizer(*TEXTS), {"source": "en", "target": "de"})
