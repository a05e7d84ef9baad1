"""A translator that begins with MASS's weights is ahead of one that begins with random ones (Song et al. 2019)."""

import random
from pathlib import Path

import qkv

MODEL = {"d_model": 32, "d_ff": 64, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
TRAINING = {"threads": 1, "precision": "float32", "schedule": "constant", "epochs": 0.0, "learning_rate": 0.005}
DATA = {"vocab_size": 320, "batch_tokens": 400}


def count(language: str, first: int, words: int) -> str:
    """A sentence that counts, in the numbers of its language: en03 en04 en05; behind 11 comes 0."""
    return " ".join(f"{language}{(first + i) % 12:02}" for i in range(words))


def test_bleu_with_its_weights_is_above_that_with_random_ones_at_equal_steps(tmp_path: Path) -> None:
    """Of 72 sentences both languages are read by themselves; of 20 there are pairs, and 24 nobody has seen."""
    every = [(first, words) for first in range(12) for words in range(4, 12)]
    random.Random(1).shuffle(every)
    unseen, read, paired = every[:24], every[24:], every[24:44]
    sentences = [(count(language, *one), language) for language in ("en", "de") for one in read]
    pairs = [(count("en", *one), count("de", *one)) for one in paired]
    valid = tmp_path / "valid.tsv"
    valid.write_text("".join(f"{count('en', *one)}\t{count('de', *one)}\n" for one in unseen))
    for name, limits in (("mass", {"steps": 100}), ("drawn", {"steps": 1, "learning_rate": 1e-30})):
        qkv.train(monolingual=sentences, out=tmp_path / name, data=DATA, model=MODEL, quiet=True,
                  training={**TRAINING, **limits, "validate_every": 100})  # fmt: skip
    bleu = [
        qkv.train(pairs=pairs, valid=valid, source="en", target="de", start=tmp_path / name, out=tmp_path / f"{name}-t",
                  data={"batch_tokens": 200}, quiet=True,
                  training={**TRAINING, "steps": 30, "validate_every": 30, "bleu_sentences": 24}).best["bleu"]
        for name in ("mass", "drawn")
    ]  # fmt: skip
    print(f"BLEU: from MASS {bleu[0]:.1f}, from random weights {bleu[1]:.1f}")
    assert bleu[0] > bleu[1] + 10
