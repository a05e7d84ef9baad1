"""Sampling draws what the softmax says, cut as asked, and the same again for the same seed."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.decoding import sample
from qkv.decoding.greedy import greedy
from qkv.decoding.sampling import narrow
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.text.tokenizer import BOS, EOS, PAD, UNK

Pad = Callable[[list[list[int]]], Tensor]
DRAWS = 5000


def p_value(counts: Counter[int], p: Tensor) -> float:
    """Pearson's chi-square test; words with fewer than five expected draws are one class."""
    rare = p * DRAWS < 5
    expected = torch.cat((p[~rare], p[rare].sum()[None])) * DRAWS
    observed = torch.tensor([float(counts[word]) for word in range(len(p))])
    observed = torch.cat((observed[~rare], observed[rare].sum()[None]))
    used = expected > 0
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    assert not observed[~used].any()
    return torch.special.gammaincc((used.sum() - 1) / 2, statistic / 2).item()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 4, 1.0), (1.0, 0, 0.7)]
)
def test_frequencies_are_those_of_the_softmax(
    make_model: Callable[..., Transformer], temperature: float, top_k: int, top_p: float
) -> None:
    model = make_model(14)
    source = torch.tensor([[5, 6, 7, EOS]])
    with torch.no_grad():
        logits = model(source, torch.tensor([[BOS]])).logits[0, -1]
    logits[[PAD, BOS, UNK]] = -torch.inf
    p = (logits / temperature).softmax(-1)
    ranked = p.argsort(descending=True).tolist()
    if top_k:
        p[ranked[top_k:]] = 0
    if top_p < 1:
        kept = next(n for n in range(1, len(p) + 1) if p[ranked[:n]].sum() >= top_p)
        p[ranked[kept:]] = 0
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": 1}
    found = sample(model, source.expand(DRAWS, -1), [2] * DRAWS, **how)
    counts = Counter(h.tokens[0] if h.tokens else EOS for h in found)
    assert p_value(counts, p / p.sum()) > 0.01


@pytest.mark.parametrize("how", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}])
def test_where_only_the_best_is_left_sampling_is_greedy(
    how: dict[str, float], model: Transformer, sources: list[list[int]], pad: Pad
) -> None:
    limits = [15] * len(sources)
    drawn, best = sample(model, pad(sources), limits, **how), greedy(model, pad(sources), limits)
    assert [h.tokens for h in drawn] == [h.tokens for h in best]
    assert [h.log_probability for h in drawn] == pytest.approx([h.log_probability for h in best], abs=1e-4)


def test_a_seed_gives_the_same_draws_again(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    def draw(seed: int) -> list[list[int]]:
        return [h.tokens for h in sample(model, pad(sources), [15] * 64, seed=seed, temperature=2.0)]

    first = draw(7)
    torch.manual_seed(0)  # the global generator has no part in it
    assert draw(7) == first
    assert draw(8) != first


def test_neighbours_do_not_change_what_is_drawn(model: Transformer, sources: list[list[int]], pad: Pad) -> None:
    """A text's draws come from the seed and its own number: the others may be any, fewer, longer or shorter."""

    def draw(chosen: list[int], limit: int = 15) -> list[list[int]]:
        rows, limits = [(i,) for i in chosen], [limit + i % 3 for i in chosen]
        some = pad([sources[i] for i in chosen])
        return [h.tokens for h in sample(model, some, limits, temperature=2.0, seed=3, rows=rows)]

    together = draw(list(range(64)))
    assert len({tuple(tokens) for tokens in together}) > 50
    assert [draw([i])[0] for i in range(64)] == together
    assert draw([40, 7, 33]) == [together[40], together[7], together[33]]
    longer = draw(list(range(64)), limit=40)  # a limit cuts, and changes nothing before it
    assert [row[: len(short)] for row, short in zip(longer, together, strict=True)] == together


def test_equal_texts_draw_for_themselves(model: Transformer, pad: Pad) -> None:
    found = sample(model, pad([[5, 6, 7, EOS]] * 20), [15] * 20, temperature=2.0)
    assert len({tuple(h.tokens) for h in found}) > 10


def test_the_score_is_that_of_the_model_at_any_temperature(model: Transformer, pad: Pad) -> None:
    """log p of what was drawn, not of how it was drawn: found again by reading it with the whole model."""
    source = [5, 6, 7, EOS]
    for hypothesis in sample(model, pad([source] * 10), [12] * 10, temperature=3.0):
        written = [BOS, *hypothesis.tokens, EOS]
        with torch.no_grad():
            logits = model(torch.tensor([source]), torch.tensor([written[:-1]])).logits[0]
        logits[:, [PAD, BOS, UNK]] = -torch.inf
        log_p = logits.log_softmax(-1).gather(1, torch.tensor(written[1:])[:, None]).sum()
        assert hypothesis.log_probability == pytest.approx(log_p.item(), abs=1e-3)


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [
        (0, 1.0, [0.5, 0.3, 0.15, 0.05]),
        (2, 1.0, [0.625, 0.375, 0, 0]),
        (0, 0.5, [1, 0, 0, 0]),  # the fewest tokens whose probabilities sum to at least top_p
        (0, 0.51, [0.625, 0.375, 0, 0]),
        (0, 0.9, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
        (1, 0.9, [1, 0, 0, 0]),
        (9, 1.0, [0.5, 0.3, 0.15, 0.05]),
    ],
)
def test_narrowing_by_hand(top_k: int, top_p: float, expected: list[float]) -> None:
    """In any order of the words."""
    order = torch.tensor([2, 0, 3, 1])
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)
    found = narrow(p.log()[:, order], top_k, top_p)
    torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64)[:, order], atol=1e-12, rtol=0)


@pytest.mark.parametrize("temperature", [1e-6, 1e6])
def test_the_coldest_and_the_hottest_can_be_drawn_from(temperature: float, model: Transformer, pad: Pad) -> None:
    assert sample(model, pad([[5, EOS]]), [15], temperature=temperature)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"temperature": value} for value in (0.0, 1e-46, float("inf"), float("nan"))),
        {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], model: Transformer) -> None:
    with pytest.raises(InputError, match="give a temperature above 0"):
        sample(model, torch.tensor([[5, EOS]]), [5], **wrong)
