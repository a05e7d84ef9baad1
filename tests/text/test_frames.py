"""What stands around texts: the forms of each family by hand, and GPT's for its four kinds of task."""

from typing import Any

import pytest

from kit import tokenizer
from qkv.models import GPT2, Bert, Roberta
from qkv.tasks import TASKS
from qkv.text.examples import ChoiceQuestion, Labelled, LabelledPair
from qkv.text.frames import Frame
from qkv.text.tokenizer import Tokenizer

WORDS = Tokenizer.train(["a b c d e"] * 3, vocab_size=290, specials=["<sep>", "<cls>"])
A, B, C = (WORDS.encode(letter) for letter in "abc")
S, E, SEP, CLS = 1, 2, WORDS.special("<sep>"), WORDS.special("<cls>")
GPT1 = Frame(("<s>",), ("<sep>",), ("<cls>",))  # Radford et al. 2018, Figure 1: start, delimiter, extract


class Gpt1(GPT2):
    """GPT-2 in the frame of its forerunner."""

    frame = GPT1


@pytest.mark.parametrize(
    ("frame", "one", "two"),
    [
        (GPT1, [S, *A, CLS], [S, *A, SEP, *B, CLS]),
        (GPT2.frame, [E, *A, E], [E, *A, E, *B, E]),
        (Bert.frame, [S, *A, E], [S, *A, E, *B, E]),
        (Roberta.frame, [S, *A, E], [S, *A, E, E, *B, E]),
    ],
)
def test_each_family_has_its_form(frame: Frame, one: list[int], two: list[int]) -> None:
    assert frame.join(WORDS, [A], 99) == (one, False)
    assert frame.join(WORDS, [A, B], 99) == (two, False)
    assert (frame.size(1), frame.size(2)) == (len(one) - len(A), len(two) - len(A) - len(B))


@pytest.mark.parametrize("most", range(4, 12))
def test_the_longer_of_two_texts_is_cut(most: int) -> None:
    """As a loop does it, token by token (Devlin et al. 2019, the authors' code)."""
    first, second = [10, 11, 12, 13, 14], [20, 21, 22]
    ids, is_cut = GPT1.join(WORDS, [first, second], most)
    a, b = list(first), list(second)
    while len(a) + len(b) > most - 3:
        (a if len(a) >= len(b) else b).pop()
    assert ids == [S, *a, SEP, *b, CLS]
    assert is_cut == (most < 11)


def rows(task: str, example: Any, **data: Any) -> list[list[int]]:
    kind = TASKS[task]
    facts = {"labels": ["x", "y"], "max_length": 20}
    [row] = kind(kind.data_class(**data), Gpt1).rows([example], WORDS, facts)
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
    assert kind(kind.data_class(), Gpt1).named_tokens() == ("<sep>", "<cls>")
    assert kind(kind.data_class(), Bert).named_tokens() == ()
    assert tokenizer("a").special("<s>") == S
