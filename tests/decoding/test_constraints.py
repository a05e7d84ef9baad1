"""The length penalty, what may not follow, the best of what may, and loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import draw
from qkv.decoding import length_penalty
from qkv.decoding.constraints import Constraints, best
from qkv.decoding.hypothesis import Ends, loops
from qkv.text.tokenizer import BOS, EOS, PAD, UNK


def test_the_length_penalty_is_the_papers() -> None:
    """Wu et al. 2016, Eq. 14: (5 + |Y|)^alpha / (5 + 1)^alpha."""
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(19, 0.5) == 2
    assert length_penalty(100, 0.0) == 1
    assert length_penalty(25, 0.6) == pytest.approx(30**0.6 / 6**0.6)


def following(
    tokens: list[list[int]], no_repeat: int = 0, limits: list[int] | None = None, ends: Ends = "forced"
) -> torch.Tensor:
    """Words that may follow each row, for a vocabulary of 9 of equal logits."""
    rules = Constraints(limits or [99] * len(tokens), no_repeat, ends)
    last = rules.last(torch.arange(len(tokens)), len(tokens[0]))
    return rules.log_probabilities(torch.zeros(len(tokens), 9), torch.tensor(tokens), last)


def test_padding_begin_and_unknown_have_no_probability() -> None:
    log_p = following([[BOS]])
    assert log_p.exp().sum().item() == pytest.approx(1)
    assert (log_p[0, [PAD, BOS, UNK]] == -torch.inf).all()
    assert log_p[0, EOS].exp().item() == pytest.approx(1 / 6)


def test_at_its_limit_a_row_may_only_end_at_its_own_price() -> None:
    log_p = following([[BOS, 5], [BOS, 5]], limits=[2, 3])
    assert (log_p > -torch.inf).sum(1).tolist() == [1, 6]
    assert log_p[0, EOS].item() == log_p[1, EOS].item()


def test_a_text_that_is_cut_need_not_end_and_an_endless_one_never_does() -> None:
    cut, endless = (following([[BOS, 5]], limits=[2], ends=ends)[0].isfinite() for ends in ("cut", "never"))
    assert cut.nonzero().flatten().tolist() == [EOS, 4, 5, 6, 7, 8]
    assert endless.nonzero().flatten().tolist() == [4, 5, 6, 7, 8]


def test_what_was_written_already_is_less_likely_by_the_penalty() -> None:
    """Keskar et al. 2019, section 4.1: logits divided by 2, or times 2 if below 0; what was given is not written."""
    logits = torch.tensor([[0.0, 0, 1, 0, 3, -1, 2, 0.5, 0]])
    log_p = Constraints([9], penalty=2.0).log_probabilities(logits, torch.tensor([[6, 4, 5, 4]]), None)
    expected = torch.tensor([1.0, 1.5, -2, 2, 0.5, 0]).log_softmax(0)
    torch.testing.assert_close(log_p[0, [EOS, 4, 5, 6, 7, 8]], expected)


@pytest.mark.parametrize(
    ("tokens", "n", "banned"),
    [
        ([BOS, 5, 6, 5], 2, {6}),
        ([BOS, 5, 6, 5], 1, {5, 6}),
        ([BOS, 5, 6, 7, 5, 6], 3, {7}),
        ([BOS, 5, 6, 7, 5, 6], 4, set()),
        ([BOS, 5, 5], 2, {5}),
        ([BOS, 5], 5, set()),
        ([BOS, 5, 6, 5, 7, 5], 2, {6, 7}),
    ],
)
def test_what_would_complete_a_run_again_may_not_follow(tokens: list[int], n: int, banned: set[int]) -> None:
    allowed = {word for word in range(9) if following([tokens], n)[0, word] > -torch.inf}
    assert allowed == {EOS, 4, 5, 6, 7, 8} - banned


def test_the_end_may_always_follow() -> None:
    assert following([[BOS, 4, 5, 6, 7, 8]], 1)[0].isfinite().nonzero().flatten().tolist() == [EOS]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([], False),
        ([5], False),
        ([5, 5, 5], False),
        ([5, 5, 5, 5], True),
        ([1, 2, 3, 5, 5, 5, 5, 9], True),
        ([5, 6] * 3, False),
        ([5, 6] * 4, True),
        ([5, 6] * 3 + [5, 7], False),
        (list(range(8)) * 4, True),
        (list(range(8)) * 3 + list(range(7)), False),
        (list(range(9)) * 4, False),  # longer than any run that is looked for
        (list(range(40)), False),
    ],
)
def test_loops_by_hand(tokens: list[int], expected: bool) -> None:
    assert loops(tokens) is expected


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(2, 4), st.integers(1, 4))
def test_loops_by_definition(tokens: list[int], times: int, longest: int) -> None:
    def somewhere(n: int) -> bool:
        starts = range(len(tokens) - n * times + 1)
        return any(tokens[i : i + n] * times == tokens[i : i + n * times] for i in starts)

    assert loops(tokens, times, longest) == any(somewhere(n) for n in range(1, longest + 1))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 9), size=st.integers(1, 1203), k=st.integers(1, 10), seed=st.integers(0, 99))
def test_the_best_are_those_of_topk(rows: int, size: int, k: int, seed: int) -> None:
    log_p = draw(rows, size, seed=seed).log_softmax(dim=1)
    values, tokens = best(log_p, k)
    expected = log_p.topk(min(k, size), dim=1)
    assert torch.equal(values, expected.values)
    assert torch.equal(log_p.gather(1, tokens), values)


def test_the_best_with_almost_everything_forbidden() -> None:
    log_p = torch.full((6, 1000), -torch.inf)
    log_p[:, 2] = -1.0
    values, tokens = best(log_p, 1)
    assert tokens.flatten().tolist() == [2] * 6
    assert values.flatten().tolist() == [-1.0] * 6
