"""The extractive stage against worked numbers; nothing of what is read is more than fits, or out of its order."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import tokenizer
from qkv.text.extract import Extract, extract, relevance

WORDS = tokenizer("a cat sat on the red mat . it rained and rained")
sentence = st.lists(st.sampled_from(["cat", "sat", "red", "mat", "rained"]), min_size=1, max_size=6).map(
    lambda words: " ".join(words).capitalize() + "."
)


def test_the_worked_example() -> None:
    """cat stands in 2 of 3 units, twice in the first; red in 1 of 3; dog in none."""
    units = ["A cat, a cat!", "The CAT is red.", "It rained."]
    assert relevance(units, "red cat dog") == pytest.approx([2 * math.log(3 / 2), math.log(3 / 2) + math.log(3), 0.0])


def test_a_word_that_all_have_says_nothing() -> None:
    assert relevance(["a cat", "a dog"], "a") == [0.0, 0.0]


@given(st.lists(sentence, min_size=1, max_size=8), st.integers(4, 60))
def test_what_is_read_fits_and_stands_in_its_order(sentences: list[str], longest: int) -> None:
    text = " ".join(sentences)
    found, whole = extract(text, WORDS, longest), WORDS.encode(text)
    assert len(found.ids) <= longest
    assert found.sentences == len(sentences)
    if len(whole) <= longest:
        assert found == Extract(whole, len(sentences), len(sentences))
        assert not found.remarks()
        return
    assert found.remarks()
    read = WORDS.decode(found.ids)
    if found.cut:
        assert sentences[0].startswith(read)
        return
    parts, left = [f"{part.strip()}." for part in read.split(".")[:-1]], iter(sentences)
    assert len(parts) == found.read < len(sentences)
    assert all(any(one == part for one in left) for part in parts)  # each behind the one before it
    assert read.startswith(sentences[0])


def test_the_most_relevant_are_chosen() -> None:
    text = "Red cat. It rained. It rained and rained. A cat sat. The red cat sat. It rained."
    found = extract(text, WORDS, len(WORDS.encode("Red cat. A cat sat. The red cat sat.")))
    assert WORDS.decode(found.ids) == "Red cat. A cat sat. The red cat sat."
    assert found.remarks() == [
        "is longer than the model reads at once: 3 of its 6 sentences were read, those nearest to the first by tf-idf"
    ]
