"""Transformer-XL's relative positions: the four terms of the paper in a loop; see tests/parity for XLNet's."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kit import draw64 as draw
from qkv.attention import Soft
from qkv.models import TransformerConfig
from qkv.positions import Places, TransformerXL, relative
from qkv.positions.relative import gathered, shifted

B, H, K, D = 2, 3, 4, 12
SIZES = TransformerConfig(d_model=D, n_heads=H, max_length=8)


def sinusoid(distance: int) -> Tensor:
    angles = [distance / 10000 ** (2 * i / D) for i in range(D // 2)]
    return torch.tensor([math.sin(x) for x in angles] + [math.cos(x) for x in angles], dtype=torch.float64)


@pytest.fixture
def position() -> TransformerXL:
    torch.manual_seed(0)
    built = TransformerXL(SIZES).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(0, 0.5)
    return built


@pytest.mark.parametrize(("start", "stop", "keys"), [(0, 5, 5), (4, 5, 5), (3, 6, 6), (0, 4, 9)])
def test_the_score_is_the_sum_of_the_papers_four_terms(
    position: TransformerXL, start: int, stop: int, keys: int
) -> None:
    """Section 3.3: (a) q.k + (b) q.W_r R(i-j) + (c) u.k + (d) v.W_r R(i-j), all divided by sqrt(d_k)."""
    q, k = draw(B, H, stop - start, K), draw(B, H, keys, K, seed=2)
    at = Places(torch.arange(start, stop), torch.arange(keys))
    found = Soft(SIZES).score(q, k, at) + position.score(q, k, at)
    for b in range(B):
        for h in range(H):
            w_r = position.project.weight[h * K : (h + 1) * K]
            u, v = position.u[h, 0], position.v[h, 0]
            for t, i in enumerate(range(start, stop)):
                for j in range(keys):
                    query, key, r = q[b, h, t], k[b, h, j], w_r @ sinusoid(i - j)
                    expected = (query @ key + query @ r + u @ key + v @ r) / math.sqrt(K)
                    assert found[b, h, t, j].item() == pytest.approx(expected.item(), abs=1e-6)


def numbered(rows: int, width: int) -> Tensor:
    """(B, H, rows, width), in which the number of every cell says where it stands."""
    return torch.arange(B * H * rows * width, dtype=torch.float64).view(B, H, rows, width)


SIDES = list(itertools.product(range(1, 7), range(1, 8), range(3)))  # rows, keys, and columns that nobody asks for


@pytest.mark.parametrize(("rows", "keys", "more"), SIDES)
def test_a_shift_picks_the_cells_that_are_counted_by_hand(rows: int, keys: int, more: int) -> None:
    """Of row i the columns rows - i, rows - i + 1 .., by their numbers: no index of any tensor is asked."""
    width = rows + keys + more
    found = shifted(numbered(rows, width), rows, keys)
    for b, h, i in itertools.product(range(B), range(H), range(rows)):
        begin = ((b * H + h) * rows + i) * width + rows - i
        assert found[b, h, i].tolist() == [*range(begin, begin + keys)]


@pytest.mark.parametrize(("rows", "keys", "more"), SIDES)
def test_indices_pick_the_cells_of_each_distance(rows: int, keys: int, more: int) -> None:
    """Queries that stand behind the keys' first `more`: column c has the distance `last` - c."""
    last, at = rows + more, Places(torch.arange(more, more + rows), torch.arange(keys))
    width = last + keys
    found = gathered(numbered(rows, width), last, at)
    for b, h, i, j in itertools.product(range(B), range(H), range(rows), range(keys)):
        assert found[b, h, i, j] == ((b * H + h) * rows + i) * width + last - (more + i - j)


# The first queries' places, how many keys there are, and where more queries stand, row by row.
RUNS = [((0, 5), 5, []), ((0, 1), 1, []), ((3, 4), 4, []), ((3, 7), 7, []), ((0, 6), 6, [[5, 0], [2, 2]]),
        ((4, 9), 9, [[4, 8, 6], [7, 5, 5]])]  # fmt: skip


@pytest.mark.parametrize(("run", "keys", "more"), RUNS)
def test_a_shift_of_rows_picks_what_indices_do(
    position: TransformerXL, run: tuple[int, int], keys: int, more: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so do their gradients. Each way is seen to be gone: the one shifts, the other never does."""
    shifts: list[int] = []
    monkeypatch.setattr(relative, "shifted", lambda *given: shifts.append(1) or shifted(*given))
    at = Places.span(*run, torch.device("cpu"))
    if more:
        at = replace(at, query=torch.cat((at.query.expand(B, -1), torch.tensor(more)), dim=1))
    q, k = draw(B, H, at.query.size(-1), K).requires_grad_(), draw(B, H, keys, K, seed=2)
    found = position.score(q, k, at)
    assert shifts == [1]
    expected = position.score(q, k, replace(at, run=0))
    assert shifts == [1]
    assert torch.equal(found, expected)
    way = draw(*found.shape, seed=3)
    (mine,), (other,) = (torch.autograd.grad((score * way).sum(), q) for score in (found, expected))
    torch.testing.assert_close(mine, other, atol=1e-12, rtol=0)


def test_segments_are_told_apart_as_the_same_or_another() -> None:
    """XLNet, section 2.5: (q + s) . e for each pair, up to what is one for all keys of a query."""
    torch.manual_seed(0)
    with_segments = TransformerXL(SIZES, segments=True).double()
    q, k, same = draw(B, H, 5, K), draw(B, H, 5, K, seed=2), draw(B, 5, 5, seed=3) > 0
    at = Places.span(0, 5, torch.device("cpu"))
    added = with_segments.score(q, k, replace(at, same=same)) - with_segments.score(q, k, at)
    expected = torch.zeros_like(added)
    for b, h, i, j in itertools.product(range(B), range(H), range(5), range(5)):
        e = with_segments.segments[0 if same[b, i, j] else 1, h, 0]
        expected[b, h, i, j] = (q[b, h, i] + with_segments.s[h, 0]) @ e / math.sqrt(K)
    torch.testing.assert_close(added.softmax(-1), expected.softmax(-1), atol=1e-12, rtol=0)
    assert (added - added[..., :1]).abs().max() > 1e-4


def test_the_sinusoid_of_a_distance_has_a_sign(position: TransformerXL) -> None:
    found = position.sinusoids(torch.arange(-20, 21))
    expected = torch.stack([sinusoid(distance) for distance in range(-20, 21)])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_each_layer_has_its_own() -> None:
    assert TransformerXL.per_layer
    names = {name: tuple(p.shape) for name, p in TransformerXL(SIZES).named_parameters()}
    assert names == {"u": (H, 1, K), "v": (H, 1, K), "project.weight": (H * K, D)}
    assert set(TransformerXL(SIZES).state_dict()) == set(names)  # the table of sines is not saved
