"""Learning runs on real data, minutes each: `make test-slow`. The bars are baselines counted from the same data."""

import gzip
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from kit import real
from qkv import demo
from qkv.evaluation import score
from qkv.opening import load_translator
from qkv.tasks.corpus import hashed
from qkv.training import train

pytestmark = pytest.mark.slow


def lines(path: Path) -> list[str]:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()


def word_by_word(sources: list[str], targets: list[str], test: list[str]) -> list[str]:
    """Each source word as the target word that it stands with most often, for its frequency (Dice's coefficient)."""
    together: dict[str, Counter[str]] = defaultdict(Counter)
    left, right = Counter[str](), Counter[str]()
    for source, target in zip(sources, targets, strict=True):
        s, t = set(source.split()), set(target.split())
        left.update(s)
        right.update(t)
        for word in s:
            together[word].update(t)
    best = {
        word: max(found, key=lambda other: 2 * found[other] / (left[word] + right[other]))
        for word, found in together.items()
    }
    return [" ".join(best.get(word, word) for word in line.split()) for line in test]


def test_multi30k_beats_a_dictionary_by_ten_points(tmp_path: Path) -> None:
    multi30k = real("multi30k")
    train(recipe="multi30k-en-de", out=tmp_path / "model", training={"epochs": 8.0, "bleu_sentences": 100}, quiet=True)
    translator = load_translator(tmp_path / "model")
    sources, references = (lines(multi30k / f"test_2016_flickr.{code}") for code in ("en", "de"))
    beam = score([line.text for line in translator.translate(sources, beam=4)], references).bleu
    greedy = score([line.text for line in translator.translate(sources, beam=1)], references).bleu
    copied = score(sources, references).bleu
    looked_up = score(
        word_by_word(*(lines(multi30k / f"train.{c}.gz") for c in ("en", "de")), sources), references
    ).bleu
    print(f"BLEU: beam {beam:.2f}, greedy {greedy:.2f}, dictionary {looked_up:.2f}, copied source {copied:.2f}")
    assert beam > 20
    assert beam > max(copied, looked_up) + 10
    assert beam > greedy - 0.2


def test_most_unseen_words_are_pronounced_right(tmp_path: Path) -> None:
    dictionary = demo.read_dictionary()
    test = {word: said for word, said in dictionary.items() if hashed("test", word) < 0.01}
    known = {word: said for word, said in dictionary.items() if word not in test}
    settings = demo.settings(tmp_path / "model", known, "transformer", minutes=3, seed=1)
    settings["training"] |= {"minutes": 0.0, "epochs": 3.0}
    pairs = demo.write_pairs(tmp_path / "model" / "data" / "train.tsv", known)
    train(pairs, out=tmp_path / "model", source="letters", target="phonemes", quiet=True, **settings)
    rates = demo.measure(load_translator(tmp_path / "model"), test)
    print(f"word error {rates.word:.3f}, phoneme error {rates.phoneme:.3f} on {len(test)} words")
    assert rates.word < 0.45
    assert rates.phoneme < 0.12
