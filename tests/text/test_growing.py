"""A vocabulary that grows for new text: by the plain algorithm, with every old id in its place, and nothing lost."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import real
from qkv.errors import InputError
from qkv.text.growing import learn_merges
from qkv.text.tokenizer import Tokenizer

OLD = ["the low lower lowest newest new", "a cat sat on the mat"] * 3
NEW = ["banana bandana bananas", "Ж Жук Жуки жужжат", "lowland lowlands"] * 3
KINDS = {kind: Tokenizer.train(OLD, kind=kind, vocab_size=275) for kind in ("bpe", "byte_bpe")}
GROWN = {kind: KINDS[kind].grow(NEW, 330) for kind in KINDS}

both_kinds = pytest.mark.parametrize("kind", KINDS)


def merge(tokens: list[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    for token in tokens:
        if found and (found[-1], token) == pair:
            found[-1] += token
        else:
            found.append(token)
    return found


def by_force(
    split: dict[str, list[str]], counts: Counter[str], taken: set[str], most: int
) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """The algorithm with nothing remembered: all pairs are counted anew before each merge."""
    split, taken, merges = dict(split), set(taken), []
    while len(merges) < most:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, tokens in split.items():
            for pair in pairwise(tokens):
                pairs[pair] += counts[word]
        allowed = [(-count, pair) for pair, count in pairs.items() if count > 1 and "".join(pair) not in taken]
        if not allowed:
            break
        _, best = min(allowed)
        merges.append(best)
        taken.add("".join(best))
        split = {word: merge(tokens, best) for word, tokens in split.items()}
    return merges, split


@settings(deadline=None)
@given(
    words=st.dictionaries(st.text("ab", min_size=1, max_size=9) | st.text("abcd", min_size=1, max_size=6),
                          st.integers(1, 4), min_size=1, max_size=8),
    taken=st.sets(st.text("abc", min_size=2, max_size=3), max_size=4),
    most=st.integers(0, 12),
)  # fmt: skip
def test_merges_are_those_of_the_plain_algorithm(words: dict[str, int], taken: set[str], most: int) -> None:
    split, counts = {word: list(word) for word in words}, Counter(words)
    merges, after = by_force(split, counts, taken, most)
    assert learn_merges(split, counts, taken=taken, most=most, longest=0) == merges
    assert split == after


def test_merges_by_hand() -> None:
    """Sennrich et al. 2016, algorithm 1: of low x 5, lower x 2, newest x 6, widest x 3, "es" then "est" are learned."""
    counts = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    merges = learn_merges({word: list(word) for word in counts}, counts, taken=set(), most=3, longest=0)
    assert merges == [("e", "s"), ("es", "t"), ("l", "o")]


@both_kinds
def test_old_ids_keep_their_meaning(kind: str) -> None:
    old, new = KINDS[kind], GROWN[kind]
    assert len(old) < len(new) <= 330
    assert new.vocabulary()[: len(old)] == old.vocabulary()
    before, after = (json.loads(one.to_str())["model"]["merges"] for one in (old, new))
    assert after[: len(before)] == before
    assert len(after) > len(before)


@both_kinds
def test_new_text_is_shorter_and_written_as_it_was_learned(kind: str) -> None:
    old, new = KINDS[kind], GROWN[kind]
    assert len(new.encode(" ".join(NEW))) < 0.6 * len(old.encode(" ".join(NEW)))
    assert all(len(new.encode(text)) <= len(old.encode(text)) for text in OLD)
    assert len(new.encode("banana")) <= 2
    assert new.pieces(new.encode("Жук"))[-1].endswith("Жук"), "letters that had no token are no bytes any more"


@both_kinds
@settings(deadline=None)
@given(text=st.text(st.sampled_from("banabd ЖужлowlS 世'\n") | st.characters(exclude_categories=["Cs"]), max_size=30))
def test_text_comes_back(kind: str, text: str) -> None:
    new = GROWN[kind]
    assert new.decode(new.encode(text)) == KINDS[kind].decode(KINDS[kind].encode(text))
    if kind == "byte_bpe":
        assert new.decode(new.encode(text)) == text


@both_kinds
def test_words_come_apart_as_in_learning(kind: str) -> None:
    """The tokenizer applies the whole list to a word of the new text and arrives where the learner did."""
    old, new = KINDS[kind], GROWN[kind]
    rust = old._rust
    words: Counter[str] = Counter()
    for text in NEW:
        normal = rust.normalizer.normalize_str(text) if rust.normalizer else text
        words.update(word for word, _ in rust.pre_tokenizer.pre_tokenize_str(normal))
    model, known = json.loads(new.to_str())["model"], json.loads(old.to_str())["model"]["merges"]
    letters = [token for token in new.vocabulary()[len(old) :] if len(token) == 1]
    assert bool(letters) == (kind == "bpe")
    split = {word: list(word) for word in words}
    for pair in known:  # one merge after the other, in the order of the list
        split = {word: merge(tokens, tuple(pair)) for word, tokens in split.items()}
    taken = {*old.vocabulary(), *letters}
    merges, split = by_force(split, words, taken, 330 - len(taken))
    assert [tuple(pair) for pair in model["merges"][len(known) :]] == merges
    assert {word: [token.value for token in new._rust.model.tokenize(word)] for word in words} == split


def test_bytes_of_letters_without_a_token_are_never_merged() -> None:
    """The decoder would not know such a piece as bytes."""
    old, text = KINDS["bpe"], "世界你好" * 5
    new = old.grow([text], len(old) + 4)  # two letters, and two merges
    assert not [token for token in new.vocabulary()[len(old) :] if "<0x" in token]
    assert new.decode(new.encode(text)) == text


@both_kinds
def test_it_can_be_saved_and_grown_again(kind: str, tmp_path: Path) -> None:
    named = Tokenizer.train(OLD, kind=kind, vocab_size=275, specials=["<mask>"]).grow(NEW, 300)
    named.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json").grow(["zebra zebras"] * 3, 310)
    assert again.vocabulary()[: len(named)] == named.vocabulary()
    assert again.special("<mask>") == 260
    assert again.fingerprint == named.grow(["zebra zebras"] * 3, 310).fingerprint


def test_what_cannot_grow_is_said() -> None:
    for kind in ("unigram", "wordpiece", "characters"):
        tokenizer = Tokenizer.train(OLD, kind=kind, vocab_size=300)
        with pytest.raises(InputError, match="only a vocabulary of the kind bpe or byte_bpe can grow"):
            tokenizer.grow(NEW, 400)
    with pytest.raises(InputError, match="has 275 tokens and cannot grow to 275; ask for more"):
        KINDS["bpe"].grow(NEW, 275)
    with pytest.raises(InputError, match="there is no text"):
        KINDS["byte_bpe"].grow([], 300)


@both_kinds
def test_a_third_language(kind: str) -> None:
    english, french = (real("multi30k", f"val.{code}").read_text("utf-8").splitlines() for code in ("en", "fr"))
    old = Tokenizer.train(english, kind=kind, vocab_size=1500)
    new = old.grow(french, 2500)
    assert len(new) == 2500
    assert sum(map(len, new.encode_batch(french))) < 0.6 * sum(map(len, old.encode_batch(french)))
    assert new.decode_batch(new.encode_batch(french)) == french
    assert new.fingerprint == old.grow(iter(french), 2500).fingerprint
