"""Sentences and pieces: in the right places, nothing lost, and in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.text.sentences import split_sentences, split_to_fit

# Text with much that looks like a border.
TEXTS = st.one_of(st.text(), st.text("aB1é .,!?…\n\"'»«(),;: 。，「」\u0301\u200d", max_size=60))


@pytest.mark.parametrize(
    "sentences",
    [
        ["Good day. ", "How are you? ", "Fine!"],
        ["  It began with a space.  \n", "Then came a line."],
        ["Wait... ", "What?! ", "No… ", "Yes."],
        ['"Really?" she asked. ', '"Yes." ', "He left. ", "(At last.) ", "Silence."],
        ["Er sagte: „Ja.“ ", "Dann ging er. ", "»Wohin?« ", "Nach Haus."],
        ["« Quoi ? » dit-il. ", "« Rien. » Puis il partit."],
        ["No way! ", "no way? ", "ok."],  # ! and ? end a sentence before a small letter, too
        ["Mr. J. Smith and Dr. A. B. Jones met Mrs. Doe. ", "They talked."],
        ["Pi is 3.14159. ", "In 1999. ", "It costs 5.99 dollars."],
        ["Use fruit, e.g. apples or (i.e. that is) pears, from the U.S. and so on. ", "Then eat."],
        ["Am 3. Oktober, z. B. um 5 Uhr, bzw. später. ", "Siehe Nr. 5 und Abb. 2. Danach mehr."],
        ["The answer is no. ", "He left."],
        ["See No. 5 of Vol. 2, p. 7. Or not."],
        ["Visit example.com. ", "It has v2.0.1 etc. and more."],
        ["他来了。", "他说：“你好！”", "然后走了。", "真的吗？", "好"],
        ["「はい。」", "そうです！？", "ええ"],
        ["क्या हाल है? ", "मैं ठीक हूँ। ", "धन्यवाद।"],
        ["هل أنت بخير؟ ", "نعم."],
        ["A heading\n\n", "a paragraph\nover two lines. ", "End"],
        ["no border. at small letters"],
        ["but at an empty line. \n \n", "always"],
        ["..."],
        [" \n "],
        [],
    ],
)
def test_sentence_borders(sentences: list[str]) -> None:
    assert split_sentences("".join(sentences)) == sentences


@given(TEXTS)
def test_sentences_joined_are_the_text(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join(sentences) == text
    assert all(sentences)


@given(TEXTS)
def test_sentences_begin_with_no_space(text: str) -> None:
    assert not any(sentence[0].isspace() for sentence in split_sentences(text)[1:])


@pytest.mark.parametrize("unit", ["A. ", ".", '."', "\n ", "\"'", "a", "。", "\u0301", ", "])
def test_a_megabyte_is_no_trouble(unit: str) -> None:
    """Linear time: what tries again at each character would take hours here."""
    text = unit * (1_000_000 // len(unit))
    assert "".join(split_sentences(text)) == text
    pieces = split_to_fit(text, lambda piece: len(piece) <= 1000)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 1000
    assert len(pieces) < 3000


@given(TEXTS, st.integers(1, 40))
def test_pieces_fit_and_joined_are_the_text(text: str, limit: int) -> None:
    pieces = split_to_fit(text, lambda piece: len(piece) <= limit)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= limit for piece in pieces)


@given(TEXTS, st.integers(4, 40))
def test_pieces_fit_by_any_measure(text: str, limit: int) -> None:
    def fits(piece: str) -> bool:
        return len(piece.encode("utf-8", "surrogatepass")) <= limit

    pieces = split_to_fit(text, fits)
    assert "".join(pieces) == text
    assert all(map(fits, pieces))


@pytest.mark.parametrize(
    ("limit", "pieces"),
    [
        (99, ["One, two. Three four; five six. Seven: eightnineten."]),
        (32, ["One, two. Three four; five six. ", "Seven: eightnineten."]),
        (30, ["One, two. ", "Three four; five six. ", "Seven: eightnineten."]),
        (19, ["One, two. ", "Three four; ", "five six. ", "Seven: ", "eightnineten."]),
        (10, ["One, two. ", "Three ", "four; ", "five six. ", "Seven: ", "eightn", "ineten."]),
    ],
)
def test_cuts_come_at_the_best_place(limit: int, pieces: list[str]) -> None:
    assert split_to_fit("".join(pieces), lambda piece: len(piece) <= limit) == pieces


def test_numbers_are_no_clauses() -> None:
    assert split_to_fit("about 1,000,000 or 7:30", lambda piece: len(piece) <= 12) == [
        "about ",
        "1,000,000 ",
        "or 7:30",
    ]


def test_an_accent_stays_with_its_letter() -> None:
    assert split_to_fit("abe\u0301\u0301f", lambda piece: len(piece) <= 4) == ["ab", "e\u0301\u0301f"]


def test_what_never_fits_is_refused() -> None:
    with pytest.raises(InputError, match="not even the single character 'a' fits; allow longer pieces"):
        split_to_fit("a b", lambda _: False)
