"""Beam search: greedy when narrow, exhaustive when wide, sorted in between."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.decoding import Plain, Search, beam_search, length_penalty
from qkv.decoding.greedy import greedy
from qkv.models import Transformer
from qkv.text.tokenizer import BOS, EOS, PAD, UNK

Pad = Callable[[list[list[int]]], Tensor]
Make = Callable[..., Transformer]


def test_a_beam_of_one_is_greedy(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    limits = [20] * len(sources)
    for (found,), best in zip(
        beam_search(model, pad(sources), limits, beam=1, alpha=0), greedy(model, pad(sources), limits), strict=True
    ):
        assert found.tokens == best.tokens
        assert found.ended == best.ended
        assert found.score == found.log_probability == pytest.approx(best.log_probability, abs=1e-4)


@torch.no_grad()
def everything(model: Transformer, source: list[int], limit: int) -> dict[tuple[int, ...], float]:
    """Every sequence of at most limit - 1 of the words 4, 5 and 6, and the log p of it and its end."""
    found = {}
    for length in range(limit):
        rows = list(itertools.product([4, 5, 6], repeat=length))
        tgt = torch.tensor([[BOS, *row] for row in rows])
        logits = model(torch.tensor([source] * len(rows)), tgt).logits
        logits[:, :, [PAD, BOS, UNK]] = -torch.inf
        log_p = logits.log_softmax(-1)
        for number, row in enumerate(rows):
            found[row] = sum(log_p[number, i, word].item() for i, word in enumerate([*row, EOS]))
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wide_beam_finds_everything(make_model: Make, seed: int, alpha: float) -> None:
    """Three words and an end, at most four tokens: 1 + 3 + 9 + 27 = 40 hypotheses, all found, in order."""
    model, source, limit = make_model(7, seed=seed), [4, 6, 5, EOS], 4
    every = everything(model, source, limit)
    assert len(every) == 40
    expected = sorted(every, key=lambda row: -every[row] / length_penalty(len(row) + 1, alpha))
    (found,) = beam_search(model, torch.tensor([source]), [limit], beam=40, alpha=alpha)
    assert [tuple(h.tokens) for h in found] == expected
    for hypothesis, row in zip(found, expected, strict=True):
        assert hypothesis.log_probability == pytest.approx(every[row], abs=1e-4)
        assert hypothesis.score == pytest.approx(every[row] / length_penalty(len(row) + 1, alpha), abs=1e-4)
        assert hypothesis.ended == (len(row) < limit - 1)


def test_a_wide_beam_finds_everything_that_begins_as_it_is_told(make_model: Make) -> None:
    """9 + 3 + 1 of the 40 begin with 6; no rule takes a given word away, and a limit does."""
    model, source, limit = make_model(7), [4, 6, 5, EOS], 4
    every = {row: total for row, total in everything(model, source, limit).items() if row[:1] == (6,)}
    (found,) = beam_search(model, torch.tensor([source]), [limit], beam=40, alpha=0.0, prefix=[6])
    assert [tuple(h.tokens) for h in found] == sorted(every, key=lambda row: -every[row])
    assert [h.log_probability for h in found] == pytest.approx(sorted(every.values(), reverse=True), abs=1e-4)
    engine, how = Plain(model), {"prefix": (6, 6, 5), "no_repeat": 1}
    for search in (Search(beam=1, **how), Search(beam=2, **how), Search(sampling=True, beam=1, n_best=2, **how)):
        texts = [[h.tokens for h in some] for some in engine.decode([source[:-1]] * 2, [9, 3], search)]
        assert all(text[:3] == [6, 6, 5] for text in texts[0])
        assert all(text == [6, 6] for text in texts[1])


def test_a_narrow_beam_finds_nothing_better_than_everything(make_model: Make) -> None:
    model, source = make_model(7), [4, 6, 5, EOS]
    every = everything(model, source, 4)
    for beam in (1, 2, 3, 5):
        (found,) = beam_search(model, torch.tensor([source]), [4], beam=beam, alpha=0)
        assert len(found) == beam
        assert all(h.score == pytest.approx(every[tuple(h.tokens)], abs=1e-4) for h in found)
        assert found[0].score <= max(every.values()) + 1e-4


def test_a_beam_of_four_is_seldom_worse_than_greedy(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    limits = [20] * len(sources)
    wide = beam_search(model, pad(sources), limits, beam=4, alpha=0)
    narrow = greedy(model, pad(sources), limits)
    differences = [many[0].score - one.score for many, one in zip(wide, narrow, strict=True)]
    assert sum(difference > -1e-4 for difference in differences) >= 0.95 * len(differences)
    assert any(difference > 0.1 for difference in differences)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_the_best_are_sorted_and_distinct(model: Transformer, sources: list[list[int]], pad: Pad, alpha: float) -> None:
    for found in beam_search(model, pad(sources), [20] * len(sources), beam=5, alpha=alpha):
        assert len(found) == 5
        assert len({tuple(h.tokens) for h in found}) == 5
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        for h in found:
            assert h.score == pytest.approx(h.log_probability / length_penalty(len(h.tokens) + 1, alpha))
            assert all(token > UNK for token in h.tokens)


def test_a_larger_alpha_favours_longer_translations(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    def words(alpha: float) -> int:
        found = beam_search(model, pad(sources), [20] * len(sources), beam=5, alpha=alpha)
        return sum(len(some[0].tokens) for some in found)

    assert words(0.0) < words(1.0) < words(3.0)


def test_each_sentence_has_its_own_limit(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    limits = [1 + i % 6 for i in range(len(sources))]
    for found, limit in zip(beam_search(model, pad(sources), limits, beam=3), limits, strict=True):
        assert found
        for h in found:
            assert len(h.tokens) < limit
            assert h.ended == (len(h.tokens) < limit - 1)
        assert limit > 1 or [h.tokens for h in found] == [[]]


def test_a_beam_wider_than_the_vocabulary(make_model: Make) -> None:
    (found,) = beam_search(make_model(6), torch.tensor([[4, 5, EOS]]), [5], beam=50)
    assert len({tuple(h.tokens) for h in found}) == len(found) == 31  # 1 + 2 + 4 + 8 + 16


def test_no_run_comes_twice_if_so_asked(make_model: Make) -> None:
    model = make_model(12, end=-6.0)
    for found in beam_search(model, torch.tensor([[4, 5, EOS], [6, 7, EOS]]), [15, 15], beam=3, no_repeat=2):
        for h in found:
            pairs = list(itertools.pairwise(h.tokens))
            assert len(set(pairs)) == len(pairs)
