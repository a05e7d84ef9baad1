"""Genres of web texts by hierarchical attention, as recipes/ewt-genre-han.toml has them: minutes, `make test-slow`."""

import json
from pathlib import Path

import pytest

import qkv
from kit import real


@pytest.mark.slow
def test_hierarchical_attention_knows_genres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On documents that it did not train on it beats the majority by far: of 318 documents, one standard error is
    sqrt(0.7 * 0.3 / 318) = 2.6 points."""
    monkeypatch.setenv("QKV_DATA", str(real("ud-english-ewt").parent))
    trained = qkv.train(recipe="ewt-genre-han", out=tmp_path / "model", quiet=True, training={"threads": 1})
    baselines = json.loads((tmp_path / "model" / "results.json").read_text())["baselines"]
    assert trained.best["accuracy"] > baselines["majority class"] + 5 * 0.026
    assert trained.best["mcc"] > 0.5
