"""Greedy decoding equals doing it from scratch with the whole model at every step."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.decoding.greedy import greedy
from qkv.models import Transformer
from qkv.text.tokenizer import BOS, EOS, PAD, UNK

Pad = Callable[[list[list[int]]], Tensor]


@torch.no_grad()
def from_scratch(model: Transformer, source: list[int], limit: int) -> tuple[list[int], float]:
    """Without cache, batch or inference mode: (tokens, log p of them and of the end)."""
    tokens, total = [BOS], 0.0
    while True:
        logits = model(torch.tensor([source]), torch.tensor([tokens])).logits[0, -1]
        logits[[PAD, BOS, UNK]] = -torch.inf
        log_p = logits.log_softmax(-1)
        best = EOS if len(tokens) == limit else int(log_p.argmax())
        total += log_p[best].item()
        if best == EOS:
            return tokens[1:], total
        tokens.append(best)


def test_the_cache_changes_nothing(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    found = greedy(model, pad(sources), [20] * len(sources))
    lengths = set()
    for hypothesis, source in zip(found, sources, strict=True):
        tokens, log_p = from_scratch(model, source, 20)
        assert hypothesis.tokens == tokens
        assert hypothesis.log_probability == pytest.approx(log_p, abs=1e-3)
        assert hypothesis.score == hypothesis.log_probability
        lengths.add(len(tokens))
    assert len(lengths) > 5  # sentences did end at different steps


def test_each_sentence_has_its_own_limit(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    whole = greedy(model, pad(sources), [20] * len(sources))
    limits = [1 + i % 7 for i in range(len(sources))]
    for hypothesis, free, limit in zip(greedy(model, pad(sources), limits), whole, limits, strict=True):
        assert hypothesis.tokens == free.tokens[: limit - 1]
        assert hypothesis.ended == (len(free.tokens) < limit - 1)


def test_no_special_token_is_ever_written(make_model: Callable[..., Transformer]) -> None:
    """Not even by a model that would like nothing better."""
    model = make_model(12, end=-3.0)
    with torch.no_grad():
        model.vocabulary.bias[[PAD, BOS, UNK]] = 100
    (found,) = greedy(model, torch.tensor([[5, 6, EOS]]), [10])
    assert found.tokens
    assert min(found.tokens) > UNK
    assert found.log_probability > -50


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_run_of_n_tokens_comes_twice(n: int, make_model: Callable[..., Transformer], pad: Pad) -> None:
    model = make_model(12, end=-6.0)
    sources = [[4 + i, 5, 6, EOS] for i in range(8)]

    def repeats(tokens: list[int]) -> bool:
        runs = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        return len(set(runs)) < len(runs)

    assert any(repeats(h.tokens) for h in greedy(model, pad(sources), [15] * 8))
    assert not any(repeats(h.tokens) for h in greedy(model, pad(sources), [15] * 8, no_repeat=n))
