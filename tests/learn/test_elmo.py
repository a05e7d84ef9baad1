"""ELMo beside word vectors tags better than word vectors alone, by the same labels (Peters et al. 2018)."""

import random
from pathlib import Path
from typing import Any

import qkv

ENDINGS = {"noun": "um", "verb": "at", "adjective": "is"}
BEHIND = {"noun": "verb", "verb": "adjective", "adjective": "noun"}  # four times in five
Sentence = list[tuple[str, str]]
SIZES = {"d_model": 64, "d_cell": 32, "layers": 1, "highways": 1, "letters": 10, "filters": [16, 16, 16]}
TAGGER = {"d_words": 16, "d_tagger": 16, "feature_dropout": 0.0, "predicts": False, "dropout": 0.0}
TRAINING = {"threads": 1, "precision": "float32", "schedule": "constant", "epochs": 0.0, "learning_rate": 0.02}


def sentences(count: int, rng: random.Random, stems: list[str]) -> list[Sentence]:
    """Made-up words, whose tag is told by their ending, and mostly by the word before."""
    found = []
    for _ in range(count):
        tag, sentence = rng.choice([*ENDINGS]), Sentence()
        for _ in range(rng.randint(4, 8)):
            sentence.append((rng.choice(stems) + ENDINGS[tag], tag))
            tag = BEHIND[tag] if rng.random() < 0.8 else rng.choice([*ENDINGS])
        found.append(sentence)
    return found


def write(path: Path, several: list[Sentence]) -> Path:
    path.write_text("\n\n".join("\n".join("\t".join(word) for word in one) for one in several) + "\n")
    return path


def accuracy(out: Path, files: tuple[Path, Path], start: Path | None = None, **model: Any) -> float:
    """Of validation words, by a tagger that learns for the same 60 steps."""
    words = {} if start else {"tokenizer": str(out.parent / "lm" / "tokenizer.json")}
    frozen = {"freeze": "backbone.bilm"} if model["features"] == "mix" else {}
    told = qkv.train(
        files[0], valid=[files[1]], task="tag", architecture="elmo", start=start, out=out, quiet=True,
        data={"batch_tokens": 200, **words}, model={**TAGGER, **model},
        training={**TRAINING, **frozen, "steps": 60, "validate_every": 30},
    )  # fmt: skip
    return told.best["accuracy"]


def test_a_tagger_with_the_mix_is_better_than_word_vectors_alone(tmp_path: Path) -> None:
    """Twelve sentences are labelled, and the biLM has read 500 others without labels. As it was drawn it spells words
    too, but has not learned what they are."""
    rng = random.Random(1)
    stems = ["".join(rng.choice("bdgklmnprst") + rng.choice("aeiou") for _ in range(2)) for _ in range(40)]
    text = [" ".join(word for word, _ in one) for one in sentences(500, rng, stems)]
    (tmp_path / "text.txt").write_text("\n".join(text) + "\n")
    labelled, valid = (write(tmp_path / f"{n}.conll", sentences(n, rng, stems)) for n in (12, 60))
    qkv.train(
        tmp_path / "text.txt", task="fill", architecture="elmo", out=tmp_path / "lm", quiet=True, model=SIZES,
        data={"tokenizer": "words", "vocab_size": 400, "batch_tokens": 400, "window": 32},
        training={**TRAINING, "learning_rate": 0.01, "steps": 80},
    )  # fmt: skip
    files = (labelled, valid)
    mixed = accuracy(tmp_path / "mixed", files, start=tmp_path / "lm", features="mix")
    alone = accuracy(tmp_path / "alone", files, features="none")
    drawn = accuracy(tmp_path / "drawn", files, features="mix", **SIZES)
    print(f"accuracy: with ELMo {mixed:.3f}, word vectors alone {alone:.3f}, ELMo as drawn {drawn:.3f}")
    assert mixed > alone + 0.1
    assert mixed > drawn + 0.05
