"""The tokenizer gives every text back, is the same for the same texts, and never reads a special token out of text."""

import json
import os
import random
import string
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import real
from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD, SPECIALS, TOKENIZERS, UNK, Tokenizer

MIXED = [
    "The quick brown fox jumps over 12 lazy dogs, doesn't it?",
    "Übermäßig große Straßen führen nach Köln – 3,5 km.",
    "我们在这里学习注意力机制。你好，世界！",
    "我們在這裡學習注意力機制。",
    "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง",
    "مرحبا بالعالم، كيف حالك؟",
    "👨‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️",
    "two  spaces,\ta tab and\na line",
] * 4
KINDS = {kind: Tokenizer.train(MIXED, kind=kind, vocab_size=600) for kind in TOKENIZERS}
LOSSLESS = [kind for kind in TOKENIZERS if kind not in ("wordpiece", "words")]
COMPOSED = ("bpe", "unigram")  # they write text in its composed form (NFC), and put a space before it

every_kind = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS)
every_lossless = pytest.mark.parametrize("tokenizer", [KINDS[kind] for kind in LOSSLESS], ids=LOSSLESS)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
# Text that is hard in particular: spaces, marks, specials, and characters near those that were learned.
hard_text = st.lists(
    st.sampled_from(
        [" ", "  ", "\n", "\u00a0", "\u3000", "▁", "e", "\u0301", "\u0323", "ก", "ำ", "世", "\u200d", "👍", "🏽"]
    )
    | st.sampled_from([*SPECIALS, "<0x41>", "<0xE4>", "<", "0x41>"]),
    max_size=12,
).map("".join)


@every_kind
@given(st.lists(any_text | hard_text | st.text("a e\u0301<s>1,", max_size=50), max_size=6))
def test_texts_have_the_ids_that_the_library_gives_them(tokenizer: Tokenizer, texts: list[str]) -> None:
    """Whatever words were seen before: of some kinds, each is encoded once."""
    composed = [tokenizer.kind.compose(text) for text in texts]
    if tokenizer.kind.parts_at_spaces:
        assert tokenizer.encode_batch(texts) == [tokenizer._rust.encode(text).ids for text in composed]
        assert tokenizer.encode_batch(texts) == tokenizer.encode_batch(texts)


def written(kind: str, text: str) -> str:
    """A text as a kind of tokenizer writes it."""
    return unicodedata.normalize("NFC", text) if kind in COMPOSED else text


@pytest.mark.parametrize("kind", LOSSLESS)
@settings(deadline=None)
@given(text=any_text | hard_text)
def test_text_comes_back(kind: str, text: str) -> None:
    ids = KINDS[kind].encode(text)
    assert KINDS[kind].decode(ids) == written(kind, text)
    assert all(UNK < number < len(KINDS[kind]) for number in ids)


@pytest.mark.parametrize("kind", COMPOSED)
def test_marks_newer_than_the_library_are_put_in_order(kind: str) -> None:
    text = "a\u0598\U0001133b"  # a nukta of Unicode 11 belongs before the accent
    assert KINDS[kind].decode(KINDS[kind].encode(text)) == "a\U0001133b\u0598" == unicodedata.normalize("NFC", text)


@every_lossless
@pytest.mark.parametrize("text", [*SPECIALS, "<0x41>", "a</s>b", " <s> x", "<0xE4><0xBD><0xA0>"])
def test_typed_specials_are_plain_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(ids) > 2
    assert not {PAD, BOS, EOS, UNK} & set(ids)


@every_kind
@settings(deadline=None)
@given(texts=st.lists(hard_text | any_text, max_size=6))
def test_a_batch_is_its_texts_one_by_one(tokenizer: Tokenizer, texts: list[str]) -> None:
    rows = tokenizer.encode_batch(texts)
    assert rows == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(rows) == [tokenizer.decode(ids) for ids in rows]


@pytest.mark.parametrize("kind", LOSSLESS)
def test_real_lines_come_back(kind: str) -> None:
    folder = real("tatoeba-en-zh")
    lines = [line for side in ("en", "zh") for line in (folder / f"valid.{side}").read_text("utf-8").splitlines()]
    tokenizer = Tokenizer.train(lines[::2], kind=kind, vocab_size=2000)
    characters = {letter for line in lines[::2] for letter in line}
    assert len(tokenizer) == (260 + len(characters) if kind == "characters" else 2000)
    assert tokenizer.decode_batch(tokenizer.encode_batch(lines)) == [written(kind, line) for line in lines]


@every_lossless
def test_ids_have_their_fixed_places(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces(range(4)) == ["<pad>", "<s>", "</s>", "<unk>"]
    is_byte_level = tokenizer is KINDS["byte_bpe"]  # whose bytes are letters
    assert tokenizer.pieces([4, 4 + 0x41, 259]) == [
        *(["\\x00", "A"] if is_byte_level else ["<0x00>", "<0x41>"]),
        "<0xFF>",
    ]
    assert tokenizer.decode([BOS, *tokenizer.encode("fox"), EOS, PAD, PAD]) == "fox"


def test_a_character_never_seen_becomes_its_bytes() -> None:
    for kind in LOSSLESS:
        pieces = KINDS[kind].pieces(KINDS[kind].encode("鬱"))
        assert pieces == ["▁"] * (kind in COMPOSED) + ["<0xE9>", "<0xAC>", "<0xB1>"]  # "鬱".encode()


def test_merges_are_those_of_the_paper() -> None:
    """Sennrich et al. 2016, algorithm 1: of low x 5, lower x 2, newest x 6, widest x 3, "es" then "est" are learned."""
    words = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    model = json.loads(Tokenizer.train(words, vocab_size=500).to_str())["model"]
    assert model["merges"][:2] == [["e", "s"], ["es", "t"]]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_vocabulary_size_counts_everything(kind: str) -> None:
    assert len(Tokenizer.train(MIXED, kind=kind, vocab_size=320)) <= 320


def test_rare_characters_leave_room_for_longer_pieces() -> None:
    """With more characters than room, half of the room is for merges, and text still comes back."""
    letters = [chr(0x4E00 + number) for number in range(300)]
    tokenizer = Tokenizer.train(["the cat the cat the cat", " ".join(letters)], vocab_size=260 + 100)
    assert len(tokenizer) == 360
    assert len(tokenizer.encode("the cat")) == 2
    assert tokenizer.decode(tokenizer.encode("".join(letters))) == "".join(letters)


def test_phonemes_and_letters_are_one_token_each() -> None:
    phonemes = ["AA", "AE", "AH", "B", "CH", "ER", "HH", "K", "L", "N", "NG", "R", "S", "SH", "T", "TH", "Z", "ZH"]
    rng = random.Random(0)
    lines = [" ".join(rng.choices(phonemes, k=rng.randint(1, 8))) for _ in range(400)]
    tokenizer = Tokenizer.train(lines, alphabet=string.ascii_lowercase)
    assert tokenizer.pieces(tokenizer.encode("T R AE N Z")) == ["▁T", "▁R", "▁AE", "▁N", "▁Z"]
    assert all(len(ids) == len(line.split()) for ids, line in zip(tokenizer.encode_batch(lines), lines, strict=True))
    assert tokenizer.pieces(tokenizer.encode("transformer")) == ["▁", *"transformer"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
def test_the_alphabet_is_in_the_vocabulary(kind: str) -> None:
    tokenizer = Tokenizer.train(MIXED, kind=kind, vocab_size=400, alphabet="жЖ")
    assert tokenizer.pieces(tokenizer.encode("жЖ")) == ["▁"] * (kind in COMPOSED) + ["ж", "Ж"]


def test_characters_are_one_token_each() -> None:
    tokenizer = Tokenizer.train(["abba\n", "cab "], kind="characters")
    assert len(tokenizer) == 260 + 5
    assert tokenizer.pieces(range(260, 265)) == ["a", "b", "\\n", "▁", "c"], "the frequent first, then by their codes"
    assert tokenizer.pieces(tokenizer.encode("cab b\n")) == ["c", "a", "b", "▁", "b", "\\n"]
    small = Tokenizer.train(["abba\n", "cab "], kind="characters", vocab_size=262)
    assert small.pieces(small.encode("bca")) == ["b", "<0x63>", "a"], "what has no room is written by its bytes"


PROGRAM = """
import sys, json
from qkv.text.tokenizer import TOKENIZERS, Tokenizer
texts = json.loads(sys.stdin.read())
for kind in TOKENIZERS:
    letters = set() if kind == "byte_bpe" else set("żółćabc")
    print(Tokenizer.train(texts, kind=kind, vocab_size=600, alphabet=letters).fingerprint)
"""


def test_same_texts_same_bytes_in_any_process() -> None:
    alphabets = {kind: "" if kind == "byte_bpe" else "cbażółć" for kind in TOKENIZERS}
    here = [Tokenizer.train(MIXED, kind=kind, vocab_size=600, alphabet=alphabets[kind]) for kind in TOKENIZERS]
    for seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(MIXED),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert there == [tokenizer.fingerprint for tokenizer in here]


@every_lossless
def test_a_million_letters_come_back(tokenizer: Tokenizer) -> None:
    for text in ("fox" * 333_333, "我们学习" * 85_000):  # quadratic work would take hours here
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", [*TOKENIZERS, "wordpiece(lowercase=False)", "words(signs=False)"])
@pytest.mark.parametrize("specials", [[], ["<mask>", "[SEP]"]])
def test_saved_and_loaded_is_the_same(kind: str, specials: list[str], tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(MIXED, kind=kind, vocab_size=600, specials=specials)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.to_str() == tokenizer.to_str()
    assert (type(loaded.kind), loaded.specials) == (type(tokenizer.kind), tokenizer.specials)
    assert loaded.encode_batch(MIXED) == tokenizer.encode_batch(MIXED)


def test_pieces_can_be_read() -> None:
    tokenizer = Tokenizer.train(["the cat\n"] * 9, vocab_size=300)
    assert tokenizer.pieces(tokenizer.encode("the cat\n")) == ["▁the", "▁cat", "\\n"]


def test_files_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        Tokenizer.load(path)
    good = KINDS["bpe"].to_str()
    for bad in (good.encode()[:-100], b"", b"\x00\xff", b"[" * 100_000):
        path.write_bytes(bad)
        with pytest.raises(InputError, match="is damaged"):
            Tokenizer.load(path)
    theirs = json.loads(good)
    foreign = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    for other in ([], {}, {"model": {"vocab": [1]}}, {**theirs, "normalizer": None}, {**theirs, "model": foreign}):
        path.write_text(json.dumps(other))
        with pytest.raises(InputError, match="not a tokenizer that qkv trained"):
            Tokenizer.load(path)
    spelled = json.loads(Tokenizer.train(MIXED, vocab_size=400, specials=["<mask>"]).to_str())
    spelled["added_tokens"][0]["content"] = "the"  # which is not where the special tokens are
    path.write_text(json.dumps(spelled))
    with pytest.raises(InputError, match="not a tokenizer that qkv trained"):
        Tokenizer.load(path)
    theirs["model"]["merges"].append(["never", "seen"])
    path.write_text(json.dumps(theirs))
    with pytest.raises(InputError, match="is damaged"):
        Tokenizer.load(path)


def test_mistakes_are_told_in_one_sentence() -> None:
    with pytest.raises(InputError, match="half a surrogate pair"):
        KINDS["bpe"].encode("ab\ud800c")
    with pytest.raises(InputError, match="half a surrogate pair"):
        Tokenizer.train(["ab\udfffc"])
    with pytest.raises(InputError, match="did you mean 'unigram'"):
        Tokenizer.train(["a"], kind="unigrams")
    with pytest.raises(InputError, match=r"vocab_size=100 is too small.*ask for 262 or more"):
        Tokenizer.train(["a"], vocab_size=100)
    with pytest.raises(InputError, match="not one character"):
        Tokenizer.train(["a"], alphabet=["ab"])
    with pytest.raises(InputError, match="byte_bpe writes every character with its bytes and takes no alphabet"):
        Tokenizer.train(["a"], kind="byte_bpe", alphabet="a")
    for kind in TOKENIZERS:
        with pytest.raises(InputError, match="no text"):
            Tokenizer.train(["", ""], kind=kind)
    with pytest.raises(InputError, match="do not fit a vocabulary"):
        KINDS["bpe"].decode([len(KINDS["bpe"])])
