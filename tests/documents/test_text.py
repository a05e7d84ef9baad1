"""Plain text: only words change."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv.documents import translate_text

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
HOLDERS = [
    "{{x}}",
    "{name}",
    "%1$s",
    "%(n)s",
    "%d",
    "https://a.org/b?c=1",
    "me@a.org",
    "🙂👍🏽",
    "`a b`",
    "<b>",
    "</b>",
]
WORDS = ["the", "cat", "Sat.", "on", "a mat,", "123", "124", "1.5", "(yes)", "Why?", "é"]
SPACES = [" ", " ", " ", "  ", "\t", "\n", "\r\n", "\n\n", "\u2028", "\x0b", "\x1f", " \n "]
PIECES = st.lists(st.tuples(st.sampled_from(HOLDERS + WORDS), st.sampled_from(["", *SPACES])), max_size=14)


def shape(text: str) -> tuple[list[str], str, str]:
    """The line ends in their order, and the space at both ends."""
    ends = re.findall(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
    return ends, text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


@given(PIECES, st.sampled_from(SPACES))
@QUICK
def test_placeholders_lines_and_space(any_rule, pieces: list[tuple[str, str]], last: str) -> None:
    """For any translator, whether it loses or doubles the numbers that stand for placeholders, or all it is given."""
    # A number and %d and a word in one, 123%dthe, could as well be a number, a sign and a word; me@a.orgon is one, too.
    text = last + "".join(piece + (space or " " * (piece[-1].isdigit() or "@" in piece)) for piece, space in pieces)
    (found,) = translate_text(any_rule, [text])
    for holder in HOLDERS:
        assert found.text.count(holder) == text.count(holder), found.text
    assert shape(found.text) == shape(text)


@given(PIECES)
@QUICK
def test_a_translator_that_changes_nothing(made_up, pieces: list[tuple[str, str]]) -> None:
    text = "".join(piece + space for piece, space in pieces)
    assert translate_text(made_up(lambda text: text), [text])[0].text == text


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "42", "1.5 + 3", "🙂", "{x} %s", "https://a.org", "-- ...", "\t—\t", "{a}, {b}!"]
)
def test_without_words_nothing_is_asked(upper, text: str) -> None:
    assert translate_text(upper, [text])[0].text == text
    assert upper.calls == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear {name},\n\n\tyour file: %s\r\n", "DEAR {name},\n\n\tYOUR FILE: %s\r\n"),
        ("One. Two!  Three", "ONE. TWO!  THREE"),
        ("Name:\tvalue\tthird", "NAME:\tVALUE\tTHIRD"),
        ("  - item one\n  - item `two`\n", "  - ITEM ONE\n  - ITEM `two`\n"),
        ("see www.a.org. Then go", "SEE www.a.org. THEN GO"),
        ("pre{x}post", "PRE{x}POST"),
        ("123 cats {x}", "123 CATS {x}"),
    ],
)
def test_only_words_change(upper, text: str, expected: str) -> None:
    assert translate_text(upper, [text])[0].text == expected


def test_all_in_one_batch_and_each_text_once(upper) -> None:
    translate_text(upper, ["One. Two.\nOne.", "Two. {x} three"])
    assert upper.calls == [["One.", "Two.", "123 three"]]


def test_pieces_where_a_placeholder_was_lost(made_up) -> None:
    """They are translated in a second batch, and stay in their order with their punctuation."""
    translator = made_up(lambda text: "Das." if "123" in text else f"{text.upper()}.")
    (found,) = translate_text(translator, ["Hello {name}, you have ({n}) files!"])
    assert found.text == "HELLO {name}, YOU HAVE ({n}) FILES!"
    assert translator.calls == [["Hello 123, you have (124) files!"], ["Hello", "you have", "files"]]


def test_a_number_that_is_copied_wrongly_is_no_copy(made_up) -> None:
    translator = made_up(lambda text: text.replace("123", "123 und 23"))
    assert translate_text(translator, ["take {x} now"])[0].text == "take {x} now"


def test_a_placeholder_moves_with_its_sentence(made_up) -> None:
    translator = made_up(lambda text: " ".join(text.split()[::-1]))
    assert translate_text(translator, ["open {file} now"])[0].text == "now {file} open"


def test_a_heading_gets_no_full_stop(made_up) -> None:
    translator = made_up(lambda text: text.rstrip(".") + ".")
    found = translate_text(translator, ["The cat", "The cat.", "The cat (old)"])
    assert [one.text for one in found] == ["The cat", "The cat.", "The cat (old)."]


def test_alternatives(upper) -> None:
    (found,) = translate_text(upper, ["a {x}\nb"], n_best=2)
    assert found.alternatives == ["A {x}\nB"] * 2


@pytest.mark.parametrize("some", [("%s", "%d"), ("%s", "%s"), ("{}", "{}"), ("%5.1f", "%<PRIu32>")])
def test_placeholders_that_are_counted_keep_their_order(some: tuple[str, str], made_up: Any) -> None:
    """Turned round, the second value would be shown for the first; those with a number or a name may change places."""
    reverse = made_up(lambda text: " ".join(text.split()[::-1]))
    found = translate_text(reverse, [f"take {some[0]} from {some[1]} now"])[0].text
    assert re.findall(r"%\S+|{}", found) == list(some)
    assert translate_text(reverse, ["take %1$s from {b} now"])[0].text == "now {b} from %1$s take"
