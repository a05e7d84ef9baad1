"""UniLM: four masks drawn by hand, what each lets through, and writing by holes; its parity is in tests/parity."""

from typing import Any

import pytest
import torch
from torch import Tensor

from kit import close, pad, padded, refused, stirred, tiny_model
from qkv.attention import LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE, TARGET, unified
from qkv.decoding import beam_search
from qkv.decoding.greedy import greedy
from qkv.errors import InputError
from qkv.models import UniLM
from qkv.models.unilm import UniLMConfig
from qkv.positions import POSITIONS
from qkv.text.tokenizer import BOS, EOS, PAD

V, MASK, T = 40, 4, 6


def rows(*lines: str) -> Tensor:
    return torch.tensor([[sign == "1" for sign in line] for line in lines])


# Dong et al. 2019, Figure 1, for six tokens: the segments of each, and which token (row) sees which (column).
WAYS: dict[str, tuple[list[int], Tensor]] = {
    "both ways": ([0, 0, 0, 1, 1, 1], rows("111111", "111111", "111111", "111111", "111111", "111111")),
    "left to right": ([LEFT_TO_RIGHT] * T, rows("100000", "110000", "111000", "111100", "111110", "111111")),
    "right to left": ([RIGHT_TO_LEFT] * T, rows("111111", "011111", "001111", "000111", "000011", "000001")),
    "source, target": ([SOURCE] * 3 + [TARGET] * 3, rows("111000", "111000", "111000", "111100", "111110", "111111")),
}  # fmt: skip
every_way = pytest.mark.parametrize("way", WAYS)


def build(**settings: Any) -> Any:
    """With weights large enough for attention to choose."""
    return stirred(tiny_model("unilm", vocab_size=V, layers=2, max_length=40, **settings), 0.2).eval()


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_segments_are_the_authors_numbers() -> None:
    assert (LEFT_TO_RIGHT, RIGHT_TO_LEFT, SOURCE, TARGET) == (2, 3, 4, 5)
    assert UniLMConfig().segments == 6


@every_way
def test_each_mask_as_it_is_drawn_by_hand(way: str) -> None:
    segments, drawn = WAYS[way]
    assert unified(torch.tensor(segments)).equal(drawn)


def test_rows_of_a_batch_are_read_each_in_its_way() -> None:
    """The same text in four ways, with padding: each row as it is alone."""
    model, ids = build(), padded([T], V)
    segments = torch.tensor([segments for segments, _ in WAYS.values()])
    wide = torch.nn.functional.pad(ids.expand(4, T), (0, 3), value=PAD)
    together = model(wide, segments=torch.nn.functional.pad(segments, (0, 3))).hidden
    alone = torch.cat([model(ids, segments=row[None]).hidden for row in segments])
    close(together[:, :T], alone)
    assert together.isfinite().all()
    assert (alone[:, None] - alone).abs().amax(dim=(2, 3)).fill_diagonal_(1).min() > 1e-2  # no two ways are alike


@every_way
def test_nothing_passes_where_the_mask_is_zero(way: str) -> None:
    """The Jacobian of every state by every token's vector, through two layers, is zero there and nowhere else."""
    model, (segments, drawn) = build(), WAYS[way]
    kept: list[Tensor] = []
    handle = model.tokens.register_forward_hook(lambda _, __, out: kept.append(out))
    hidden = model(padded([T], V), segments=torch.tensor([segments])).hidden[0]  # (T, D)
    handle.remove()
    for i in range(T):
        gradients = [torch.autograd.grad(one, kept[0], retain_graph=True)[0][0] for one in hidden[i]]  # (T, D) each
        assert torch.stack(gradients).ne(0).any(dim=2).any(dim=0).equal(drawn[i])


@pytest.mark.parametrize("dims", [2, 3])
def test_a_mask_of_ones_own(dims: int) -> None:
    """Of real tokens, it is joined with what the segments say; of pairs, it takes its place."""
    model, ids, segments = build(), padded([T, 4], V), torch.full((2, T), RIGHT_TO_LEFT)
    real = ids != PAD
    if dims == 2:
        expected = model(ids, segments=segments).hidden
        close(model(ids.masked_fill(~real, 7), segments=segments, mask=real).hidden[real], expected[real])
    else:
        triangle = torch.ones(T, T, dtype=torch.bool).tril() & real[:, None]
        found = model(ids, segments=segments, mask=triangle).hidden
        assert not torch.allclose(found[real], model(ids, segments=segments).hidden[real], atol=1e-3)
        handed = model.read(model.tokens(ids, segments), ids, triangle)
        close(found[real], handed[real])


# -- writing -----------------------------------------------------------------------------------------------------------


class Holes:
    """What UniLM's `start` and `step` must give: the whole text is read anew for each hole. It is its own state."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def start(self, given: Tensor) -> tuple[Tensor, "Holes"]:
        self.rows = [[BOS, *(n for n in row if n != PAD)] for row in given.tolist()]
        self.sources, self.has_begun = [len(row) for row in self.rows], False
        return torch.full((len(given),), BOS), self

    def step(self, tokens: Tensor, state: "Holes") -> Tensor:
        if self.has_begun:
            self.rows = [[*row, token] for row, token in zip(self.rows, tokens.tolist(), strict=True)]
        self.has_begun = True
        logits = []
        for row, n in zip(self.rows, self.sources, strict=True):
            segments = torch.tensor([[SOURCE] * n + [TARGET] * (len(row) + 1 - n)])
            logits.append(self.model(torch.tensor([[*row, MASK]]), segments=segments).logits[0, -1])
        return torch.stack(logits).index_fill_(1, torch.tensor([MASK]), -torch.inf)

    def reorder(self, chosen: Tensor) -> None:
        self.rows, self.sources = ([some[i] for i in chosen.tolist()] for some in (self.rows, self.sources))


SOURCES = pad([[*row, EOS] for row in ([7, 8, 9, 10], [11], [12, 13, 14, 15, 16, 17], [18, 19])])
SEQUENTIAL = [name for name, position in POSITIONS.items() if not position.needs_tree]


@pytest.mark.parametrize("position", SEQUENTIAL)
@torch.no_grad()
def test_what_is_kept_between_steps_is_what_would_be_read_again(position: str) -> None:
    """For every position; and rows that change places go on with what they are now."""
    model = build(position=position)
    plain, more = Holes(model), padded([3] * 5, V, seed=2)
    (first, state), _ = model.start(SOURCES), plain.start(SOURCES)
    assert first.tolist() == [BOS] * 4
    close(model.step(first, state), plain.step(first, plain))
    order = torch.tensor([2, 0, 0, 3, 1])
    state.reorder(order)
    plain.reorder(order)
    for t in range(3):
        close(model.step(more[:, t], state), plain.step(more[:, t], plain))


@torch.no_grad()
def test_searches_find_what_reading_again_finds() -> None:
    model, limits = build(), [9, 4, 12, 7]
    with torch.no_grad():
        model.projection.bias[EOS] += 2.0  # so that some texts end by themselves
    for found, expected in zip(greedy(model, SOURCES, limits), greedy(Holes(model), SOURCES, limits), strict=True):
        assert found.tokens == expected.tokens
        assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
    how: dict[str, Any] = {"beam": 4, "alpha": 0.6, "no_repeat": 3}
    every = zip(
        beam_search(model, SOURCES, limits, **how), beam_search(Holes(model), SOURCES, limits, **how), strict=True
    )
    for several, expected_ones in every:
        assert [h.tokens for h in several] == [h.tokens for h in expected_ones]
        assert all(MASK not in h.tokens for h in several)


def test_it_writes_as_much_as_its_context_has_room_for() -> None:
    """<s> x </s> y </s> is just as long as the table of positions."""
    model = build()
    source = [*range(7, 17), EOS]
    room = model.room(10)
    assert UniLM.context(10, room - 1) == 40
    with torch.no_grad():
        model.projection.bias[EOS] -= 50.0
    (found,) = greedy(model, torch.tensor([source]), [room])
    assert len(found.tokens) == room - 1
    with pytest.raises(InputError, match="place 40 is beyond the 40 learned positions"):
        greedy(model, torch.tensor([source]), [room + 1])


@refused({
    "segments=5": "segments must be at least 6",
    "mask_id=40, vocab_size=40": "mask_id is 40, but there are 40 tokens",
    "mask_id=0": "mask_id must be at least 1",
})  # fmt: skip
def test_settings_that_cannot_be(wrong: str) -> None:
    UniLMConfig(**{key: int(value) for key, value in (one.split("=") for one in wrong.split(", "))})
