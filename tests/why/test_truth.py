"""The measured numbers against a second way of getting them: loops, closed forms, the worked example's own digits."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.why import Measured, recurrence
from qkv.why.claim import apart, influence
from qkv.why.length import count
from qkv.why.long import spectrum
from qkv.why.masks import visible

Measure = Callable[[str], Measured]

# softmax(X X^T) and Z of X = (1 3 2 / 1 1 3 / 1 2 1), worked with a calculator of ten digits; Z also with 1/sqrt(3).
WEIGHTS = [
    [0.9755587549, 0.0178679819, 0.0065732632],
    [0.2676231541, 0.7274751568, 0.0049016890],
    [0.9094429985, 0.0452785007, 0.0452785007],
]
Z = [[1, 2.957690773, 2.011294719], [1, 1.540147997, 2.722573468], [1, 2.864164498, 2.0]]
SCALED_Z = [[1, 2.7797563953, 2.0377149194], [1, 1.7287706546, 2.5838964968], [1, 2.6079576072, 2.0]]


def tables(measured: Measured) -> dict[str, list[list[float]]]:
    """The printed figures, by table."""
    found: dict[str, list[list[float]]] = {}
    for name, _, *numbers in measured.shown():
        found.setdefault(name, []).append([float(number) for number in numbers])
    return found


@pytest.mark.parametrize(("name", "expected"), [("weights", WEIGHTS), ("Z", Z), ("Z, scaled by sqrt(3)", SCALED_Z)])
def test_the_worked_example_as_printed(name: str, expected: list[list[float]], measure: Measure) -> None:
    printed = tables(measure("N29"))[name]
    for line, wanted in zip(printed, expected, strict=True):
        assert line == pytest.approx(wanted, abs=1.1e-9)


def test_the_worked_example_by_plain_arithmetic(measure: Measure) -> None:
    x = [[1, 3, 2], [1, 1, 3], [1, 2, 1]]
    scores = [[sum(a * b for a, b in zip(q, k, strict=True)) for k in x] for q in x]
    assert tables(measure("N29"))["scores X X^T"] == scores
    for line, row in zip(tables(measure("N29"))["weights"], scores, strict=True):
        total = sum(math.exp(score) for score in row)
        assert line == pytest.approx([math.exp(score) / total for score in row], abs=1e-9)


def test_positions_multiply_to_sums_of_cosines(measure: Measure) -> None:
    for d, *products in (row[:5] for row in measure("N21").rows):
        for k, product in zip((0, 1, 10, 50), products, strict=True):
            assert product == pytest.approx(sum(math.cos(k * 10000 ** (-2 * i / int(d))) for i in range(int(d) // 2)))


def test_attention_costs_what_the_closed_form_says(measure: Measure) -> None:
    for n, projections, mixing, lstm, cells, size in measure("N28").rows[:-1]:
        n = int(n)
        assert (projections, mixing) == (4 * n * 64**2, 2 * n * n * 64)
        assert lstm == n * 8 * 64**2  # four gates, each from input and state
        assert (cells, size) == (n * n, 4 * n * n)


def test_counting_counts_a_known_product() -> None:
    operations, cells, size = count(lambda: torch.zeros(3, 5) @ torch.zeros(5, 7))
    assert (operations, cells, size) == (3 * 5 * 7, 35, 140)


def test_influence_is_what_a_small_push_does() -> None:
    """Against finite differences."""
    mix = torch.tensor([[1.0, 0.0, 0.5], [0.0, 2.0, 0.0], [0.0, 0.3, 1.0]], dtype=torch.float64)

    def f(x: Tensor) -> Tensor:
        return (mix @ x).tanh()

    x = torch.randn(1, 3, 2, dtype=torch.float64)
    found = influence(f, x)
    for i in range(3):
        for j in range(3):
            slopes = []
            for c in range(2):
                push = torch.zeros_like(x)
                push[0, j, c] = 1e-6
                slopes.append((f(x + push) - f(x - push))[0, i] / 2e-6)
            assert found[i, j].item() == pytest.approx(torch.stack(slopes).norm().item(), abs=1e-8)
    assert ((found == 0) == (mix == 0)).all()


def test_the_gradient_of_an_rnn_by_its_chain_of_matrices() -> None:
    """d h_T / d x_1 = product of diag(1 - h^2) U, times diag(1 - h_1^2) W: written out."""
    part = nn.RNN(64, 64, batch_first=True).double()
    torch.manual_seed(0)
    measured = recurrence.reach(lambda x: part(x)[0], 12, beside="last")
    torch.manual_seed(0)  # the same words and the same direction
    x, probe = torch.randn(8, 12, 64, dtype=torch.float64), torch.randn(64, dtype=torch.float64)
    states = part(x)[0].detach()  # (8, 12, 64)

    def by_hand(t: int) -> float:
        flow = probe.expand(8, -1)
        for s in range(11, t, -1):
            flow = ((1 - states[:, s] ** 2) * flow) @ part.weight_hh_l0
        return (((1 - states[:, t] ** 2) * flow) @ part.weight_ih_l0).norm(dim=-1).mean().item()

    assert measured == pytest.approx(by_hand(0) / by_hand(11))


@pytest.mark.parametrize(("width", "layers", "gaps"), [(3, 4, None), (5, 3, None), (3, 3, [1, 2, 4])])
def test_windows_reach_as_far_as_steps_from_neighbour_to_neighbour(
    width: int, layers: int, gaps: list[int] | None
) -> None:
    seen = {20}
    for gap in gaps or [1] * layers:
        seen = {place + gap * step for place in seen for step in range(-(width // 2), width // 2 + 1)}
    felt = influence(recurrence.convolution(width, layers, gaps), torch.randn(1, 41, 1, dtype=torch.float64))[20]
    assert set(felt.nonzero()[:, 0].tolist()) == seen


def test_the_longest_chain_of_operations_is_counted() -> None:
    def thrice(x: Tensor) -> Tensor:
        return x.exp().exp().exp()

    def once(x: Tensor) -> Tensor:
        return x.exp() + x.sin()

    assert recurrence.chain(thrice, 5) - recurrence.chain(once, 5) == 1  # three in a row; two side by side and a sum


def test_masks_of_the_families() -> None:
    """UniLM's four, written out; of the last three words are the source and three the target."""
    expected = {
        "both directions": ["111111"] * 6,
        "left to right": ["100000", "110000", "111000", "111100", "111110", "111111"],
        "right to left": ["111111", "011111", "001111", "000111", "000011", "000001"],
        "source, then target": ["111000", "111000", "111000", "111100", "111110", "111111"],
    }
    found = visible("UniLM")
    assert {k: ["".join(str(int(cell)) for cell in row) for row in mask] for k, mask in found.items()} == expected
    one: Any = visible("XLNet")["one order"]
    assert sorted(one.sum(dim=1).tolist()) == [1, 2, 3, 4, 5, 6]


def test_the_pairs_that_each_model_of_the_family_sees_of_36(measure: Measure) -> None:
    """A triangle with its diagonal has 6 * 7 / 2; UniLM's last mask 3 * 3 of the source and 4 + 5 + 6 of the target."""
    found = {name: pairs for name, _, pairs, _ in measure("N41").rows}
    assert found == {
        **dict.fromkeys(("ULMFiT", "SiATL", "GPT", "GPT-2"), "21"),
        **dict.fromkeys(
            ("BERT", "RoBERTa", "SpanBERT", "ERNIE (Baidu)", "ERNIE 2.0", "ERNIE (Tsinghua)", "MT-DNN"), "36"
        ),
        "ELMo": "forward 21, backward 21",
        "MASS": "encoder 36, decoder 21",
        "UniLM": "both directions 36, left to right 21, right to left 21, source, then target 24",
        "XLNet": "one order 21",
    }


def test_apart_is_the_largest_difference() -> None:
    assert apart(torch.tensor([1.0, -4.0]), torch.tensor([2.0, 1.0])) == 5.0


# -- long texts --------------------------------------------------------------------------------------------------------


def test_long_attention_costs_what_the_closed_forms_say(measure: Measure) -> None:
    """Of one text, width 64 in two heads: q k^T and the mixing, forward; five products, backward."""
    full, window, *_ = measure("N42").rows
    for n, operations in zip((1024, 4096), full[1:3], strict=True):
        assert operations * 1e6 == 7 * n * n * 64
    assert full[4] == 4096
    assert window[4] == 3 * 64  # blocks of 64: its own and one on each side


def test_a_spectrum_is_of_the_roots_of_eigenvalues() -> None:
    weights = torch.randn(3, 2, 5, 5, dtype=torch.float64)
    by_hand = [torch.linalg.eigvalsh(one.T @ one).clamp(min=0).sqrt().flip(0) for one in weights.flatten(0, 1)]
    expected = torch.stack([values.cumsum(0) / values.sum() for values in by_hand]).mean(dim=0)
    torch.testing.assert_close(spectrum(weights), expected)
    torch.testing.assert_close(spectrum(torch.eye(4)[None, None]), torch.tensor([0.25, 0.5, 0.75, 1.0]))


def test_hops_are_those_of_a_walk_over_blocks(measure: Measure) -> None:
    """Of BigBird without random blocks, by sets: a block sees its neighbours and the first and the last, which see all;
    and of a window."""
    for name, n, keys, one, two, needed in measure("N44").rows:
        blocks = range(n // 4)
        if name == "without random blocks":
            ends = {0, len(blocks) - 1}
            sees = {i: {*blocks} if i in ends else ends | {i - 1, i, i + 1} for i in blocks}
        elif name == "window alone":
            sees = {i: {j for j in range(n) if abs(i - j) <= 6} for i in range(n)}
        else:
            assert (keys, two, needed) == (4 * 6, 1, 2)
            continue
        twice = {i: set().union(*(sees[j] for j in seen)) for i, seen in sees.items()}
        assert one == pytest.approx(sum(map(len, sees.values())) / len(sees) ** 2)
        assert two == pytest.approx(sum(map(len, twice.values())) / len(sees) ** 2)
        assert needed == (2 if name != "window alone" else math.ceil((n - 1) / 6))
