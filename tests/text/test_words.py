"""A vocabulary of whole words, and what every kind of tokenizer says of the letters of its tokens."""

import pytest

from qkv.errors import InputError
from qkv.text.tokenizer import TOKENIZERS, UNK, Tokenizer

TEXTS = ["the dog sees a dog, the cat", "the cat sees the zoo."] * 3
KNOWN = ["▁the", "▁dog", "▁cat", "▁sees", "▁,", "▁.", "▁a", "▁zoo"]  # by how often they occur, then by spelling


def words(**options: object) -> Tokenizer:
    kind = "words" + (f"({', '.join(f'{name}={value}' for name, value in options.items())})" if options else "")
    return Tokenizer.train(TEXTS, kind=kind, vocab_size=269)


def test_frequent_words_are_tokens_and_others_their_bytes() -> None:
    tokenizer = words()
    assert tokenizer.vocabulary()[260:] == ["▁", "▁the", *sorted(KNOWN[1:4]), *sorted(KNOWN[4:])]
    assert tokenizer.pieces(tokenizer.encode("the zoë, dog")) == [
        "▁the", "▁", "<0x7A>", "<0x6F>", "<0xC3>", "<0xAB>", "▁,", "▁dog",
    ]  # fmt: skip
    assert tokenizer.decode(tokenizer.encode("  the\n zoë, dog")) == "the zoë , dog"
    assert UNK not in tokenizer.encode("犬 𝔘 \u0301 ▁ <s> <0x41>")


def test_signs_at_the_ends_are_words_unless_spaces_part_all() -> None:
    text = "#dog can't, (U.S. @-@"
    assert words().decode(words().encode(text)) == "#dog can't , ( U.S . @ - @"
    assert words(signs=False).decode(words(signs=False).encode(text)) == text


def test_a_word_that_is_set_apart_is_one_word() -> None:
    tokenizer = words()
    ids, numbers = tokenizer.encode_words(["dog", "dog,", ":-)"])
    assert tokenizer.pieces(ids[:2]) == ["▁dog", "▁"]
    assert [tokenizer.begins_word[number] for number in ids] == [True, True, *[False] * 4, True, *[False] * 3]
    assert numbers == [0, *[1] * 5, *[2] * 4]
    with pytest.raises(InputError, match="half a surrogate pair"):
        tokenizer.encode_words(["a\ud800"])


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_letters_of_tokens_are_those_of_their_words(kind: str) -> None:
    tokenizer = Tokenizer.train(TEXTS, kind=kind, vocab_size=300, specials=["<mask>"])
    letters = tokenizer.letters()
    text = "the dogs see" if kind == "wordpiece" else "the zoë sees 犬 zoos"  # wordpiece has no strange letters
    words, begun = [bytearray()], False
    for number in tokenizer.encode(text):
        if kind == "characters" and not letters[number]:
            words.append(bytearray())  # a space is a token of its own
        if kind != "characters" and tokenizer.begins_word[number] and begun:
            words.append(bytearray())
        words[-1] += letters[number]
        begun = True
    assert [bytes(word).decode() for word in words] == text.split()
    assert letters[tokenizer.special("<mask>")] == b"<mask>"
