"""Numbers, phrases and answers in words: against scipy, a regular expression over marks, and cases worked by hand."""

import re

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import refused
from qkv.evaluation import (
    Phrase,
    exact_match,
    marks_phrases,
    overlap_f1,
    pearson,
    phrase_scores,
    phrases,
    spearman,
)

# -- numbers -----------------------------------------------------------------------------------------------------------

NUMBERS = st.tuples(st.integers(-9, 9), st.integers(-9, 9))  # small whole ones, so that many are equal


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERS, min_size=2, max_size=20))
def test_correlations_are_scipys(pairs: list[tuple[int, int]]) -> None:
    found, gold = ([float(value) for value in side] for side in zip(*pairs, strict=True))
    if len(set(found)) == 1 or len(set(gold)) == 1:
        assert pearson(found, gold) == spearman(found, gold) == 0.0  # scipy says nan
    else:
        assert pearson(found, gold) == pytest.approx(scipy.stats.pearsonr(found, gold).statistic, abs=1e-12)
        assert spearman(found, gold) == pytest.approx(scipy.stats.spearmanr(found, gold).statistic, abs=1e-12)


def test_ranks_see_any_growth_and_pearson_sees_straight_lines() -> None:
    assert spearman([1, 10, 100, 1000], [1, 2, 3, 4]) == pytest.approx(1)
    assert pearson([1, 2, 3], [5, 3, 1]) == pytest.approx(-1)
    assert pearson([1, 10, 100, 1000], [1, 2, 3, 4]) < 0.9


@refused({((1.0,), (1.0, 2.0)): "1 found numbers and 2 gold ones", ((), ()): "there is nothing to score"}, "found gold")
def test_numbers_come_in_pairs(found: tuple[float, ...], gold: tuple[float, ...]) -> None:
    pearson(found, gold)


# -- phrases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-per I-per O B-loc", [(1, 3, "per"), (4, 5, "loc")]),
        ("B-per B-per", [(0, 1, "per"), (1, 2, "per")]),
        ("B-per I-loc", [(0, 1, "per"), (1, 2, "loc")]),
        ("O I-per I-per", [(1, 3, "per")]),  # conlleval: it goes on with nothing, and so begins
        ("B-per O I-per", [(0, 1, "per"), (2, 3, "per")]),
        ("S-per B-loc I-loc E-loc S-loc", [(0, 1, "per"), (1, 4, "loc"), (4, 5, "loc")]),
        ("B-loc E-loc E-loc", [(0, 2, "loc"), (2, 3, "loc")]),
        ("E-per I-per", [(0, 1, "per"), (1, 2, "per")]),
        ("U-per B-loc L-loc", [(0, 1, "per"), (1, 3, "loc")]),
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
        ("O O", []),
    ],
)
def test_phrases_are_conllevals(tags: str, expected: list[tuple[int, int, str]]) -> None:
    assert phrases(tags.split()) == [Phrase(*one) for one in expected]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"]), max_size=12))
def test_phrases_are_those_of_a_regular_expression(tags: list[str]) -> None:
    """IOB2: one letter for each word, capital where a phrase begins: Xx*, or x+ that nothing begins."""
    letters = "".join({"O": "-", "B-x": "X", "I-x": "x", "B-y": "Y", "I-y": "y"}[tag] for tag in tags)
    found = [(m.start(), m.end(), m[0][0].lower()) for m in re.finditer(r"Xx*|Yy*|x+|y+", letters)]
    assert phrases(tags) == [Phrase(*one) for one in found]


def test_a_phrase_counts_if_borders_and_type_are_right() -> None:
    """Gold: 3 phrases, said: 4, right: 1. So 1/4, 1/3, and F1 = 2 / 7."""
    gold = [["B-per", "I-per", "O"], ["B-loc", "O", "B-loc"]]
    found = [["B-per", "O", "O"], ["B-loc", "B-per", "B-per"]]
    assert phrase_scores(found, gold) == (1 / 4, 1 / 3, 2 / 7)
    assert phrase_scores(gold, gold) == (1, 1, 1)
    assert phrase_scores([["O"]], [["O"]]) == (0, 0, 0)


def test_of_tags_without_marks_each_word_counts() -> None:
    gold, found = [["NOUN", "VERB"], ["DET", "O"]], [["NOUN", "NOUN"], ["DET", "O"]]
    assert phrase_scores(found, gold, is_marked=False) == (3 / 4, 3 / 4, 3 / 4)


def test_a_scheme_is_known_by_its_tags() -> None:
    assert marks_phrases(["O", "B-per", "I-per"])
    assert marks_phrases(["S-per", "O"])
    assert not marks_phrases(["NOUN", "-LRB-", "X"])
    assert not marks_phrases(["O"])


@refused({("B-per", "M-per", "O"): "the tags 'B-per' and 'M-per' are of no one scheme; write B-type"}, "tags")
def test_tags_of_two_schemes_are_refused(tags: tuple[str, ...]) -> None:
    marks_phrases(tags)


@refused({((("O",),), (("O", "O"),)): "a sentence has 1 tags and 2 gold ones"}, "found gold")
def test_a_tag_for_each_word(found: list[list[str]], gold: list[list[str]]) -> None:
    phrase_scores(found, gold)


# -- answers in words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "gold", "exact", "f1"),
    [
        ("The Denver Broncos", ["denver broncos"], 1, 1),
        ("an  apple,  a pear!", ["apple pear"], 1, 1),
        ("theatre", ["atre"], 0, 0),  # an article is a word by itself
        ("Broncos", ["Denver Broncos"], 0, 2 / 3),
        ("Denver Broncos of Denver", ["Denver Broncos", "the Broncos"], 0, 2 * 2 / (4 + 2)),  # a word counts as often
        ("Denver, Denver", ["Denver Denver Broncos"], 0, 2 * 2 / (2 + 3)),
        ("it's", ["its"], 1, 1),
        ("anything", [], 0, 0),
        ("", [], 1, 1),
        ("", ["Denver"], 0, 0),
        ("the", ["a"], 1, 1),  # nothing is left of either
        ("co-operate", ["cooperate"], 1, 1),
    ],
)
def test_answers_are_compared_as_squad_does(found: str, gold: list[str], exact: float, f1: float) -> None:
    assert exact_match(found, gold) == exact
    assert overlap_f1(found, gold) == pytest.approx(f1)


def test_the_nearest_of_several_answers_counts() -> None:
    assert overlap_f1("in the red house", ["a house", "red house", "Paris"]) == pytest.approx(2 * 2 / (3 + 2))
