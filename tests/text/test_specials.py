"""Special tokens with names of their own; words and their places; what WordPiece keeps of a text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD, TOKENIZERS, UNK, Tokenizer

NAMES = ["<mask>", "<cls>", "[SEP]"]
TEXTS = ["A big dog sees a dog.", "Ein großer Hund, 大狗!", "<mask> is typed, [SEP] too"] * 4
KINDS = {kind: Tokenizer.train(TEXTS, kind=kind, vocab_size=400, specials=NAMES) for kind in TOKENIZERS}
FIRST = {kind: 4 if kind == "wordpiece" else 260 for kind in TOKENIZERS}  # the first id behind the reserved ones

every_kind = pytest.mark.parametrize("kind", TOKENIZERS)


@every_kind
def test_named_specials_follow_the_reserved_ids(kind: str) -> None:
    tokenizer, first = KINDS[kind], FIRST[kind]
    named = dict(zip(NAMES, range(first, first + 3), strict=True))
    assert tokenizer.specials == {"<pad>": PAD, "<s>": BOS, "</s>": EOS, "<unk>": UNK, **named}
    assert tokenizer.pieces(list(named.values())) == NAMES
    assert [tokenizer.special(name) for name in ("<mask>", "</s>")] == [first, EOS]


@every_kind
@settings(deadline=None)
@given(
    text=st.lists(st.sampled_from([*NAMES, " ", "a", "mask", "<", ">", "[", "SEP"]) | st.text(max_size=3)).map("".join)
)
def test_typed_names_are_plain_text(kind: str, text: str) -> None:
    text = text.encode(errors="ignore").decode()
    ids = KINDS[kind].encode(text)
    assert not set(ids) & set(KINDS[kind].specials.values()) - {UNK}
    if kind != "wordpiece":
        assert UNK not in ids


@every_kind
def test_a_name_is_a_token_where_that_is_asked_for(kind: str) -> None:
    """Between the words around it, it stands as if it were a word of the text."""
    tokenizer, mask = KINDS[kind], FIRST[kind]
    whole = tokenizer.encode("A big dog.")
    big = tokenizer.encode_words(["A", "big"])[0][len(tokenizer.encode("A")) :]
    at = next(i for i in range(len(whole)) if whole[i : i + len(big)] == big)
    space = tokenizer.encode(" ") if kind == "characters" else []  # where a space is a token, it is not the word's
    assert tokenizer.encode("A <mask> dog.", specials=True) == [*whole[:at], *space, mask, *whole[at + len(big) :]]
    assert tokenizer.encode("<mask>", specials=True) == [mask]
    assert tokenizer.encode("<mask><cls>", specials=True) == [mask, mask + 1]
    assert tokenizer.encode("A big dog.", specials=True) == whole
    assert tokenizer.encode("A </s>", specials=True) == tokenizer.encode("A </s>"), "only those named in training"


@every_kind
@pytest.mark.parametrize("text", ["A <mask> dog.", "<mask><mask> big <cls>, dog", "dog<mask>"])
def test_decoding_writes_specials_out_where_that_is_asked_for(kind: str, text: str) -> None:
    """As they are read again; the ends of a text are not written."""
    tokenizer = KINDS[kind]
    ids = tokenizer.encode(text, specials=True)
    written = tokenizer.decode([BOS, *ids, EOS, PAD], specials=True)
    assert tokenizer.encode(written, specials=True) == ids
    assert [name for name in re.findall("<[^>]*>", written) if name != "<unk>"] == re.findall("<[^>]*>", text)


@every_kind
def test_decoding_leaves_specials_out(kind: str) -> None:
    tokenizer = KINDS[kind]
    ids = tokenizer.encode("a dog")
    named = list(tokenizer.specials.values())
    assert tokenizer.decode([BOS, named[4], *ids, *named[5:], EOS, PAD]) == "a dog"


def test_a_special_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="this vocabulary has no <sep>, only <pad>, <s>, </s>, <unk>, <mask>, <cls>"):
        KINDS["bpe"].special("<sep>")
    assert Tokenizer.train(["a b"]).encode("<mask>", specials=True) == Tokenizer.train(["a b"]).encode("<mask>")


@pytest.mark.parametrize(
    "names", [["mask"], ["<>"], ["<_>"], ["<a b>"], ["<s>"], ["<0x41>"], ["<m>", "<m>"], ["[]"], [""]]
)
def test_names_that_text_could_spell_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match=r"cannot name a special token; give different names like <mask> or \[MASK\]"):
        Tokenizer.train(["a"], specials=names)


def test_names_take_room() -> None:
    assert len(Tokenizer.train(TEXTS, vocab_size=300, specials=NAMES)) <= 300
    with pytest.raises(InputError, match="vocab_size=262 is too small: 263 ids are reserved"):
        Tokenizer.train(["a"], vocab_size=262, specials=NAMES)


@every_kind
def test_words_have_the_ids_that_they_have_in_a_text(kind: str) -> None:
    words = ["A", "big", "dog", "sees"]
    ids, numbers = KINDS[kind].encode_words(words)
    assert ids == KINDS[kind].encode("A big dog sees")
    assert len(numbers) == len(ids)
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(4))
    assert KINDS[kind].encode_words(["", "a"])[1][0] == 0, "a word of nothing has a token too"


def test_words_of_one_id_each() -> None:
    ids, numbers = KINDS["bpe"].encode_words(["dog", "Hund", "dog"])
    assert KINDS["bpe"].pieces(ids) == ["▁dog", "▁Hund", "▁dog"]
    assert numbers == [0, 1, 2]


@every_kind
@settings(deadline=None)
@given(text=st.text(st.sampled_from("a dog.Eß大\u0301 \n"), max_size=20))
def test_spans_are_places_in_the_text(kind: str, text: str) -> None:
    tokenizer = KINDS[kind]
    ids, spans = tokenizer.encode_spans(text)
    assert ids == tokenizer.encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert [start for start, _ in spans] == sorted(start for start, _ in spans)
    covered = {place for start, end in spans for place in range(start, end)}
    missed = "".join(letter for place, letter in enumerate(text) if place not in covered)
    assert not missed.replace("\u0301", "").strip(), "all but white space, and accents that WordPiece strips"


def test_spans_by_hand() -> None:
    for kind in ("bpe", "byte_bpe", "wordpiece"):
        _, spans = KINDS[kind].encode_spans("A big dog.")
        assert {(0, 1), (2, 5), (6, 9), (9, 10)} <= set(spans), kind
    ids, spans = KINDS["byte_bpe"].encode_spans("é狗")
    assert len(ids) > 2
    assert set(spans) == {(0, 1), (1, 2)}, "each byte is at its character"


def test_wordpiece_by_hand() -> None:
    """The longest piece is taken first, ## marks what goes on with a word, and a strange letter makes it unknown."""
    tokenizer = Tokenizer.train(["low lower lowest newer newest"] * 9, kind="wordpiece", vocab_size=40)
    assert tokenizer.pieces(tokenizer.encode("Löwest, low")) == ["lowest", "<unk>", "low"]
    assert tokenizer.decode(tokenizer.encode("low LOWER  xx lowest")) == "low lower <unk> lowest"
    pieces = tokenizer.pieces(tokenizer.encode("lowestow"))
    assert pieces[0] == "lowest"
    assert [piece[:2] for piece in pieces[1:]] == ["##"] * len(pieces[1:])
    assert "".join(pieces).replace("##", "") == "lowestow"
    cased = Tokenizer.train(["Löwe löwe"] * 9, kind="wordpiece(lowercase=False)", vocab_size=40)
    assert cased.pieces(cased.encode("Löwe LÖWE")) == ["Löwe", "<unk>"]
    with pytest.raises(InputError, match="'wordpiece' has no option 'lower'; did you mean 'lowercase'"):
        Tokenizer.train(["a"], kind="wordpiece(lower=False)")


def test_wordpieces_letters_leave_room_for_longer_pieces() -> None:
    rare = " ".join(chr(0x430 + n) + chr(0x431 + n) for n in range(30))
    tokenizer = Tokenizer.train(["the cat the cat " * 9, rare], kind="wordpiece", vocab_size=44)
    assert len(tokenizer) <= 44
    assert tokenizer.pieces(tokenizer.encode("the cat")) == ["the", "cat"]


def test_which_tokens_begin_a_word() -> None:
    expected = {
        "bpe": {"▁A": True, "▁big": True, "▁dog": True, ".": False},
        "byte_bpe": {"A": False, "▁big": True, "▁dog": True, ".": False},
        "wordpiece": {"a": True, "big": True, "dog": True, ".": True},
        "characters": dict.fromkeys("A▁bigdo.", True),
    }
    for kind, words in expected.items():
        ids = KINDS[kind].encode("A big dog.")
        assert {KINDS[kind].pieces([n])[0]: KINDS[kind].begins_word[n] for n in ids} == words, kind
    begins = KINDS["bpe"].begins_word
    assert not any(begins[number] for number in range(4, 260)), "bytes go on with a word"


@every_kind
def test_each_special_token_is_a_word_of_its_own(kind: str) -> None:
    tokenizer = KINDS[kind]
    assert len(tokenizer.begins_word) == len(tokenizer)
    assert all(tokenizer.begins_word[number] for number in tokenizer.specials.values())


@settings(deadline=None)
@given(text=st.text(st.sampled_from("a dog.Eß大 \n"), max_size=20))
def test_wordpiece_begins_as_many_words_as_berts_rule_finds(text: str) -> None:
    """White space and each sign and Chinese character part words."""
    words = re.findall(r"[^\W大]+|[.大]", text)
    assert sum(KINDS["wordpiece"].begins_word[number] for number in KINDS["wordpiece"].encode(text)) == len(words)


@every_kind
def test_just_some_names_are_tokens_where_these_are_asked_for(kind: str) -> None:
    """The others stay what somebody has typed."""
    tokenizer = KINDS[kind]
    found = tokenizer.encode("<mask> A <cls> dog", specials=("<cls>", "<ent>"))
    assert set(found) & set(range(FIRST[kind], FIRST[kind] + 3)) == {tokenizer.special("<cls>")}
    assert tokenizer.encode("<mask> A <cls> dog", specials=("<ent>",)) == tokenizer.encode("<mask> A <cls> dog")
