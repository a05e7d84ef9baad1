"""Recurrent cells against torch's own, ragged rows against rows alone, and how far back a gradient reaches."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kit import along, close, draw, draw64, stirred
from qkv.attention import Soft
from qkv.layers import CELLS, ProjectedLSTM, Recurrence
from qkv.models import RecurrentConfig
from qkv.positions import Places

TORCH: dict[str, Any] = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}
SIZES = RecurrentConfig(d_model=64, max_length=200)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("name", CELLS)
def test_the_equations_are_those_of_torchs_cells(name: str, dtype: torch.dtype, atol: float) -> None:
    torch.manual_seed(0)
    cell, theirs = CELLS[name], TORCH[name](5, 7).to(dtype)
    x, state = draw(3, 5, dtype=dtype), tuple(draw(3, 7, seed=i + 2, dtype=dtype) for i in range(cell.states))
    wx = nn.functional.linear(x, theirs.weight_ih, theirs.bias_ih)
    uh = nn.functional.linear(state[0], theirs.weight_hh, theirs.bias_hh)
    assert len(wx[0]) == cell.gates * 7
    expected = theirs(x, state if cell.states > 1 else state[0])
    found = cell.step(wx, uh, state)
    for part, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        close(part, other, atol)


@pytest.mark.parametrize("name", CELLS)
def test_step_by_step_equals_all_at_once_in_values_and_gradients(name: str) -> None:
    torch.manual_seed(0)
    layers = Recurrence(name, 5, 7, layers=3).double()
    x = draw(2, 6, 5, dtype=torch.float64).requires_grad_()
    first = [tuple(draw(2, 7, seed=9 + i, dtype=torch.float64) for i in range(layers.cell.states)) for _ in range(3)]
    whole, last = layers(x, first)
    state, steps = first, []
    for wx in layers.project(x).unbind(1):
        state = layers.step(wx, state)
        steps.append(state[-1][0])
    close(torch.stack(steps, dim=1), whole, 1e-12)
    for one, other in zip(state, last, strict=True):
        for part, expected in zip(one, other, strict=True):
            close(part, expected, 1e-12)
    along = draw(2, 6, 7, seed=5, dtype=torch.float64)
    weights = [x, *layers.parameters()]
    found = torch.autograd.grad((torch.stack(steps, dim=1) * along).sum(), weights)
    for gradient, expected in zip(found, torch.autograd.grad((whole * along).sum(), weights), strict=True):
        assert expected.any()
        close(gradient, expected, 1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_a_short_row_reads_as_if_alone_in_both_directions(name: str) -> None:
    torch.manual_seed(0)
    layers = Recurrence(name, 5, 7, layers=2, bidirectional=True)
    x, lengths = draw(4, 6, 5), torch.tensor([6, 2, 1, 4])
    outputs, last = layers(x, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, end = layers(x[row : row + 1, :length])
        close(outputs[row, :length], alone[0], 1e-6)
        assert not outputs[row, length:].any()
        for one, other in zip(last, end, strict=True):
            for part, expected in zip(one, other, strict=True):
                close(part[row], expected[0], 1e-6)


def test_the_second_direction_reads_from_the_end() -> None:
    """By hand: the same rows turned round, through a stack that has the backward weights as its forward ones."""
    torch.manual_seed(0)
    both, one = Recurrence("lstm", 5, 7, layers=1, bidirectional=True), Recurrence("lstm", 5, 7, layers=1)
    one.layers.load_state_dict({f"{name}_l0": getattr(both.layers, f"{name}_l0_reverse") for name in
                                ("weight_ih", "weight_hh", "bias_ih", "bias_hh")})  # fmt: skip
    x, lengths = draw(2, 6, 5), torch.tensor([6, 3])
    outputs, last = both(x, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        turned, end = one(x[row : row + 1, :length].flip(1))
        close(outputs[row, :length, 7:], turned[0].flip(0), 1e-6)
        close(last[1][1][row], end[0][1][0], 1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_an_empty_row_gives_zeros_and_harms_nobody(name: str) -> None:
    torch.manual_seed(0)
    layers = Recurrence(name, 5, 7, layers=1, bidirectional=True)
    x = draw(3, 4, 5)
    outputs, last = layers(x, lengths=torch.tensor([4, 0, 2]))
    assert not outputs[1].any()
    assert not any(part[1].any() for state in last for part in state)
    close(outputs[[0, 2]], layers(x[[0, 2]], lengths=torch.tensor([4, 2]))[0], 1e-6)


def test_a_new_lstm_remembers_and_the_other_gates_are_as_torch_draws_them() -> None:
    torch.manual_seed(0)
    layers = Recurrence("lstm", 5, 7, layers=2, bidirectional=True).layers
    torch.manual_seed(0)
    fresh = nn.LSTM(5, 7, 2, bidirectional=True)
    for (_, _, b, b_hidden), (_, _, theirs, _) in zip(layers.all_weights, fresh.all_weights, strict=True):
        assert torch.equal((b + b_hidden)[7:14], torch.ones(7))
        assert torch.equal(b[:7], theirs[:7])
        assert torch.equal(b[14:], theirs[14:])


# -- how far a gradient reaches: why attention came -------------------------------------------------------------------


def reach(name: str, length: int) -> float:
    """|dh_T / dx_1| / |dh_T / dx_T| of a new layer of width 64, by eight random projections."""
    torch.manual_seed(0)
    layer = Recurrence(name, 64, 64, layers=1).double()
    x = draw(1, length, 64, dtype=torch.float64).expand(8, -1, -1).clone().requires_grad_()
    last = layer(x)[0][:, -1]
    (gradient,) = torch.autograd.grad((last * draw(8, 64, seed=2, dtype=torch.float64)).sum(), x)
    norms = gradient.norm(dim=(0, 2))
    return float(norms[0] / norms[-1])


@pytest.mark.parametrize(
    ("name", "decades"),  # log10 of the ratio at T = 10, 50, 100, give or take two; measured once on other code
    [("rnn", (-3, -16, -34)), ("gru", (-2, -10.5, -20.5)), ("lstm", (-1, -4.5, -9))],
)
def test_a_new_layers_gradient_dies_with_distance(name: str, decades: tuple[float, ...]) -> None:
    for length, decade in zip((10, 50, 100), decades, strict=True):
        assert 10 ** (decade - 2) < reach(name, length) < 10 ** (decade + 2)


def test_a_gated_layer_forgets_more_slowly() -> None:
    assert 1e4 * reach("rnn", 50) < reach("gru", 50) < 1e-2 * reach("lstm", 50)


@pytest.mark.parametrize("length", [10, 50, 100, 200])
def test_attention_reaches_the_first_token_as_well_as_any(length: int) -> None:
    ratios = []
    for seed in range(5):
        x = draw(1, 1, length, 64, seed=seed, dtype=torch.float64).requires_grad_()
        last = Soft(SIZES)(x, x, x, Places.span(0, length, x.device))[0, 0, -1]
        (gradient,) = torch.autograd.grad((last * draw(64, seed=9, dtype=torch.float64)).sum(), x)
        norms = gradient[0, 0].norm(dim=-1)
        ratios.append(float(norms[0] / norms.median()))
    assert 0.3 < sorted(ratios)[2] < 3


def waits(result: Tensor, kind: str) -> int:
    """The most operations of a kind on one path through a result's graph: steps that must wait for one another."""
    longest: dict[Any, int] = {}
    pending = [result.grad_fn]
    while pending:
        node = pending[-1]
        before = [one for one, _ in node.next_functions if one is not None]
        unknown = [one for one in before if one not in longest]
        pending.extend(unknown)
        if not unknown:
            longest[pending.pop()] = max((longest[one] for one in before), default=0) + (kind in node.name())
    return longest[result.grad_fn]


@pytest.mark.parametrize("length", [3, 10, 40])
def test_a_recurrent_layer_waits_once_for_each_token_and_attention_once(length: int) -> None:
    layer, x = Recurrence("rnn", 64, 64, layers=1), draw(1, length, 64).requires_grad_()
    state = [(torch.zeros(1, 64),)]
    for wx in layer.project(x).unbind(1):
        state = layer.step(wx, state)
    assert waits(state[0][0], "Tanh") == length
    q = x[:, None]
    assert waits(Soft(SIZES)(q, q, q, Places.span(0, length, x.device)), "Softmax") == 1


def test_dropout_between_layers_multiplies_what_the_next_one_reads() -> None:
    torch.manual_seed(0)
    layers = Recurrence("gru", 5, 7, layers=2)
    wx, state = layers.project(draw(3, 5)), [(draw(3, 7, seed=2),), (draw(3, 7, seed=3),)]
    (lower,), (dropped,) = layers.step(wx, state, masks=torch.zeros(1, 3, 7))
    _, u, b, b_hidden = layers.layers.all_weights[1]
    (expected,) = layers.cell.step(b.expand(3, -1), nn.functional.linear(state[1][0], u, b_hidden), state[1])
    close(dropped, expected, 1e-6)
    close(lower, layers.step(wx, state)[0][0], 1e-6)
    assert not torch.allclose(dropped, layers.step(wx, state)[1][0])


def test_a_projected_lstm_without_limits_is_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = ProjectedLSTM(5, 7, 3).double(), nn.LSTM(5, 7, proj_size=3, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input.weight)
        theirs.weight_hh_l0.copy_(ours.state.weight)
        theirs.weight_hr_l0.copy_(ours.projection.weight)
        theirs.bias_ih_l0.copy_(ours.input.bias)
        theirs.bias_hh_l0.zero_()
    x = draw64(2, 6, 5).requires_grad_()
    found, expected = ours(x), theirs(x)[0]
    close(found, expected, atol=1e-12)
    slopes = (torch.autograd.grad((said * along(said)).sum(), x)[0] for said in (found, expected))
    close(*slopes, atol=1e-12)


def test_a_projected_lstm_keeps_cells_and_states_within_their_limits() -> None:
    """Number by number, as the equations say: c is clipped before it is mixed, h behind the projection."""
    torch.manual_seed(0)
    lstm = stirred(ProjectedLSTM(2, 3, 2, cell_clip=0.4, projection_clip=0.25), 1.0)
    x = draw(1, 5, 2)
    w, u, b, p = (part.tolist() for part in (lstm.input.weight, lstm.state.weight, lstm.input.bias,
                                             lstm.projection.weight))  # fmt: skip
    h, c, clipped = [0.0] * 2, [0.0] * 3, {"cell": 0, "state": 0}
    for given, found in zip(x[0].tolist(), lstm(x)[0].tolist(), strict=True):
        a = [b[r] + dot(w[r], given) + dot(u[r], h) for r in range(12)]
        i, f, o = ([1 / (1 + math.exp(-a[k + n])) for n in range(3)] for k in (0, 3, 9))
        raw = [f[n] * c[n] + i[n] * math.tanh(a[6 + n]) for n in range(3)]
        c = [max(-0.4, min(0.4, value)) for value in raw]
        mixed = [o[n] * math.tanh(c[n]) for n in range(3)]
        h = [max(-0.25, min(0.25, dot(row, mixed))) for row in p]
        clipped["cell"] += c != raw
        clipped["state"] += 0.25 in map(abs, h)
        assert found == pytest.approx(h, abs=1e-6)
    assert min(clipped.values()) > 0


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))
