"""ROUGE against worked numbers, and the longest common sequence against all sequences."""

import gzip
import json
from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import real, refused
from qkv.evaluation import rouge
from qkv.evaluation.rouge import longest_common

words = st.lists(st.sampled_from("abc"), max_size=6)


def test_the_papers_own_example() -> None:
    """Lin 2004, section 3.1: "police kill the gunman" has 3 of 4 words in the order of "police killed the gunman", and
    "the gunman kill police" 2 of 4; both have one pair of words in common."""
    reference = ["police killed the gunman"]
    for text, longest in (("police kill the gunman", 75), ("the gunman kill police", 50)):
        assert rouge([text], [reference]) == pytest.approx((75, 100 / 3, longest))


def test_precision_and_recall_of_different_lengths() -> None:
    """One word of two is in a reference of five: F1 = 2 * 1 / (2 + 5). A word counts as often as both have it."""
    assert rouge(["Cats, dogs!"], [["the cats sat on mats"]]) == pytest.approx((200 / 7, 0, 200 / 7))
    assert rouge(["a a a"], [["a a b c"]]).rouge_1 == pytest.approx(100 * 2 * 2 / 7)


def test_the_best_of_several_references_and_the_mean_of_texts() -> None:
    assert rouge(["a b", "c"], [["x", "a b"], ["y"]]) == pytest.approx((50, 50, 50))
    assert rouge(["..."], [["a"]]) == (0, 0, 0)


@given(words, words)
def test_the_longest_common_sequence_is_the_longest_of_all(a: list[str], b: list[str]) -> None:
    every = [{some for n in range(7) for some in combinations(one, n)} for one in (a, b)]
    assert longest_common(a, b) == max(map(len, every[0] & every[1]))


@refused([((["a"], []), "references"), (([], []), "at least"), ((["a"], [[]]), "text 1 has no")], "texts references")
def test_what_cannot_be_compared_is_refused(texts: list[str], references: list[list[str]]) -> None:
    rouge(texts, references)


def test_what_googles_rouge_score_says_of_real_summaries() -> None:
    """The first sentence of each of 200 abstracts against its summaries, one by one and as the best of several.

    Letters that are not ASCII are no words there, and are left out here.
    """
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1", "rouge2", "rougeL"])
    with gzip.open(real("scitldr-a/dev.jsonl.gz"), "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in islice(file, 200)]
    texts = [(ascii_of(one["source"][0]), [ascii_of(target) for target in one["target"]]) for one in records]
    for text, targets in texts:
        expected = [[100 * one.fmeasure for one in scorer.score(target, text).values()] for target in targets]
        assert rouge([text], [targets[:1]]) == pytest.approx(expected[0])
        assert rouge([text], [targets]) == pytest.approx([max(several) for several in zip(*expected, strict=True)])


def ascii_of(text: str) -> str:
    return text.encode("ascii", "ignore").decode()
