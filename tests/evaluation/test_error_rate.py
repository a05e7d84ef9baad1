"""Edit distance against a plain recursion, and error rates worked by hand."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.errors import InputError
from qkv.evaluation import ErrorRates, edit_distance, error_rates

words = st.text("abc", max_size=7)


@cache
def by_recursion(a: str, b: str) -> int:
    """The definition, with no table: drop a letter of one side, of the other, or of both."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        by_recursion(a[1:], b) + 1,
        by_recursion(a, b[1:]) + 1,
        by_recursion(a[1:], b[1:]) + (a[0] != b[0]),
    )


@given(words, words)
def test_edit_distance_is_what_the_recursion_says(a, b):
    assert edit_distance(a, b) == by_recursion(a, b)


@given(words, words, words)
def test_edit_distance_is_a_distance(a, b, c):
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


def test_symbols_may_be_longer_than_a_letter():
    # kitten -> sitten -> sittin -> sitting, the textbook's three; and AE1 -> AA1 is one symbol, not one of three.
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["K", "AE1", "T"], ("K", "AA1", "T", "S")) == 2


def test_rates_by_hand():
    hypotheses = [["T", "AH", "M", "AA", "T", "OW"], ["K", "AE", "T"], ["D", "AO"]]
    references = [
        [["T", "AH", "M", "EY", "T", "OW"], ["T", "AH", "M", "AA", "T", "OW"]],  # equals the second: 0 edits of 6
        [["K", "AA", "T", "S"], ["K", "AA", "T"]],  # 2 edits or 1: 1 edit of 3
        [["D", "AO", "G"]],  # 1 edit of 3
    ]
    assert error_rates(hypotheses, references) == ErrorRates(word=2 / 3, phoneme=2 / 12)


@given(st.permutations([["a"], ["a", "b", "c"], ["x", "y"]]))
def test_of_equally_near_references_the_shortest_counts_in_any_order(accepted):
    assert error_rates([["a", "b"]], [accepted]) == ErrorRates(word=1.0, phoneme=1.0)  # 1 edit of 1, not 1 of 3


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_right_answer_costs_nothing_and_an_empty_one_costs_all(corpus):
    one_each = [[item] for item in corpus]
    assert error_rates([tuple(item) for item in corpus], one_each) == ErrorRates(0.0, 0.0)
    assert error_rates([[] for _ in corpus], one_each) == ErrorRates(1.0, 1.0)


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "the list of hypotheses is empty"),
        ([["a"]], [], "1 hypotheses and 0 lists of references"),
        ([["a"], ["b"]], [[["a"]], []], "item 2 has no reference"),
        ([["K", "AE"]], [["K", "AE"]], "item 1 has the string 'K' where a list of phonemes was expected"),
        ([["a"]], [[[]]], "all empty"),
    ],
)
def test_mistakes_are_said_in_words(hypotheses, references, message):
    with pytest.raises(InputError, match=message):
        error_rates(hypotheses, references)
