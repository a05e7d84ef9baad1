"""With the same vocabulary, our tokenizers write what transformers' and a plain loop over the published rule write."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from kit import real_lines
from qkv.text.kinds import PRINTABLE
from qkv.text.tokenizer import UNK, Tokenizer

transformers = pytest.importorskip("transformers")
regex = pytest.importorskip("regex")

WORDS = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")  # GPT-2's


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """1,000 lines of real text in several scripts, with white space of all sorts around them."""
    return [f"{'  ' * (i % 3)}{line}{' ' * (i % 4)}\n{'x' * (i % 2)}" for i, line in enumerate(real_lines())]


@pytest.fixture(scope="module")
def byte_bpe(texts: list[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = Tokenizer.train(texts[::2], kind="byte_bpe", vocab_size=1500)
    return tokenizer, json.loads(tokenizer.to_str())["model"]


def test_byte_level_bpe_is_gpt_2s(texts: list[str], byte_bpe: tuple[Tokenizer, dict[str, Any]], tmp_path: Path) -> None:
    ours, model = byte_bpe
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = "".join(f"{first} {second}\n" for first, second in model["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    files = (str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    theirs = transformers.GPT2Tokenizer(*files, unk_token=None, bos_token=None, eos_token=None)
    assert len(ours) == 1500
    assert ours.encode_batch(texts) == [theirs.encode(text) for text in texts]
    assert ours.decode_batch(ours.encode_batch(texts)) == texts


def test_byte_level_bpe_is_the_published_rule(texts: list[str], byte_bpe: tuple[Tokenizer, dict[str, Any]]) -> None:
    """In each word, the pair that was merged first in training is merged first, until none is left."""
    ours, model = byte_bpe
    rank = {tuple(pair): number for number, pair in enumerate(model["merges"])}

    def encode(word: str) -> list[int]:
        parts = [PRINTABLE[byte] for byte in word.encode()]
        while pairs := [pair for pair in itertools.pairwise(parts) if pair in rank]:
            first = min(pairs, key=rank.__getitem__)
            at = next(i for i in range(len(parts)) if tuple(parts[i : i + 2]) == first)
            parts[at : at + 2] = ["".join(first)]
        return [model["vocab"][part] for part in parts]

    for text in texts[::5]:
        assert ours.encode(text) == [number for word in WORDS.findall(text) for number in encode(word)]


@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece_is_berts(texts: list[str], lowercase: bool, tmp_path: Path) -> None:
    """Transformers has it twice: on the library that we use too, and in plain Python."""
    texts = [text.replace("<unk>", "unknown") for text in texts]  # which theirs reads as the special token
    ours = Tokenizer.train(texts[::2], kind=f"wordpiece(lowercase={lowercase})", vocab_size=1500)
    vocab = ours.vocabulary()
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab), encoding="utf-8")
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<s>"}
    legacy = transformers.models.bert.tokenization_bert_legacy.BertTokenizerLegacy
    numbers = {token: number for number, token in enumerate(vocab)}
    fast = transformers.BertTokenizer(numbers, do_lower_case=lowercase, **names)
    plain = legacy(str(tmp_path / "vocab.txt"), do_lower_case=lowercase, **names)
    rows = ours.encode_batch(texts)
    assert sum(row.count(UNK) for row in rows) > 100, "of words with letters that half of the lines lack"
    for theirs in (fast, plain):
        assert rows == [theirs.encode(text, add_special_tokens=False) for text in texts]
