"""What stands around texts: the forms of each family by hand, and GPT's for its four kinds of task."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import tokenizer
from qkv.errors import InputError
from qkv.models import GPT, GPT2, MODELS, Backbone, Bert, Roberta
from qkv.tasks import TASKS
from qkv.text.examples import ChoiceQuestion, Labelled, LabelledPair
from qkv.text.frames import Frame
from qkv.text.tokenizer import Tokenizer

WORDS = Tokenizer.train(["a b c d e"] * 3, vocab_size=290, specials=["<sep>", "<cls>"])
A, B, C = (WORDS.encode(letter) for letter in "abc")
S, E, SEP, CLS = 1, 2, WORDS.special("<sep>"), WORDS.special("<cls>")
FRAMES = {kind.frame for kind in MODELS.values() if issubclass(kind, Backbone)}
TEXT = st.lists(st.integers(300, 400), max_size=12)


@pytest.mark.parametrize(
    ("frame", "one", "two"),
    [
        (GPT.frame, [S, *A, CLS], [S, *A, SEP, *B, CLS]),
        (GPT2.frame, [E, *A, E], [E, *A, E, *B, E]),
        (Bert.frame, [S, *A, E], [S, *A, E, *B, E]),
        (Roberta.frame, [S, *A, E], [S, *A, E, E, *B, E]),
    ],
)
def test_each_family_has_its_form(frame: Frame, one: list[int], two: list[int]) -> None:
    assert frame.join(WORDS, [A], 99) == (one, False)
    assert frame.join(WORDS, [A, B], 99) == (two, False)
    assert (frame.size(1), frame.size(2)) == (len(one) - len(A), len(two) - len(A) - len(B))


@given(st.lists(TEXT, min_size=1, max_size=2), st.integers(4, 30))
def test_the_longer_text_is_cut_first(texts: list[list[int]], most: int) -> None:
    """The authors' loop: while there are too many, drop the last token of the longer; of equal ones, of the first."""
    for frame in FRAMES:
        parts = [list(text) for text in texts]
        while sum(map(len, parts)) > max(0, most - frame.size(len(texts))):
            max(parts, key=len).pop()
        expected = [*map(WORDS.special, frame.before), *parts[0]]
        for part in parts[1:]:
            expected += [*map(WORDS.special, frame.between), *part]
        ids, is_cut = frame.join(WORDS, texts, most)
        assert ids == [*expected, *map(WORDS.special, frame.after)]
        assert is_cut == (parts != texts)


def rows(task: str, example: Any, **data: Any) -> list[list[int]]:
    kind = TASKS[task]
    facts = {"labels": ["x", "y"], "max_length": 20}
    [row] = kind(kind.data_class(**data), GPT).rows([example], WORDS, facts)
    return row


def test_gpts_four_kinds_of_task() -> None:
    """Radford et al. 2018, Figure 1, right: a class, an entailment, a likeness in both orders, and some choices."""
    assert rows("classify", Labelled("y", "a", "")) == [[S, *A, CLS], [1]]
    assert rows("pair", LabelledPair("a", "b", "x", "")) == [[S, *A, SEP, *B, CLS], [0]]
    one, other, _ = rows("similarity", LabelledPair("a", "b", "1.0", ""), symmetric=True)
    assert (one, other) == ([S, *A, SEP, *B, CLS], [S, *B, SEP, *A, CLS])
    ids, lengths, right = rows("choose", ChoiceQuestion("a", ["b", "c"], 1, ""))
    assert ids == [S, *A, SEP, *B, CLS, S, *A, SEP, *C, CLS]
    assert (lengths, right) == ([len(ids) // 2] * 2, [1])


def test_the_vocabulary_gets_the_names_of_the_frame() -> None:
    kind = TASKS["pair"]
    assert kind(kind.data_class(), GPT).named_tokens() == ("<sep>", "<cls>")
    assert kind(kind.data_class(), Bert).named_tokens() == ()
    assert tokenizer("a").special("<s>") == S
    with pytest.raises(InputError, match="this vocabulary has no <sep>"):
        GPT.frame.join(tokenizer("a"), [[7], [8]], 9)
