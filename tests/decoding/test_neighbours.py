"""A sentence's translation is the same alone, in any batch, in any order, beside any neighbours."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from qkv.decoding import Hypothesis, beam_search
from qkv.decoding.greedy import greedy
from qkv.models import Transformer

Pad = Callable[[list[list[int]]], Tensor]
Decode = Callable[[list[list[int]]], list[Hypothesis]]


@pytest.fixture(params=["greedy", "beam"])
def decode(request: pytest.FixtureRequest, model: Transformer, pad: Pad) -> Decode:
    def run(rows: list[list[int]]) -> list[Hypothesis]:
        limits = [len(row) + 8 for row in rows]
        if request.param == "greedy":
            return greedy(model, pad(rows), limits)
        return [found[0] for found in beam_search(model, pad(rows), limits, beam=4)]

    return run


@pytest.mark.parametrize("size", [2, 7, 64])
def test_the_size_of_the_batch_does_not_matter(decode: Decode, sources: list[list[int]], size: int) -> None:
    alone = [decode([source])[0] for source in sources]
    together = [h for i in range(0, len(sources), size) for h in decode(sources[i : i + size])]
    assert [h.tokens for h in together] == [h.tokens for h in alone]
    assert [h.score for h in together] == pytest.approx([h.score for h in alone], abs=1e-4)
    assert len({tuple(h.tokens) for h in alone}) > 40  # the source does decide


def test_order_and_neighbours_do_not_matter(decode: Decode, sources: list[list[int]]) -> None:
    expected = [h.tokens for h in decode(sources)]
    for seed in range(3):
        order = torch.randperm(len(sources), generator=torch.Generator().manual_seed(seed)).tolist()
        for chosen in (order, order[:9], order[:1] * 5):
            found = decode([sources[i] for i in chosen])
            assert [h.tokens for h in found] == [expected[i] for i in chosen]
