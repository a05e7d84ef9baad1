"""Sinusoidal positions are the paper's formula, in the three layouts in use, for any place."""

import math
from collections.abc import Iterator

import pytest
import torch

from qkv.config import build
from qkv.errors import InputError
from qkv.models import TransformerConfig
from qkv.positions import POSITIONS, Places, Position, Sinusoidal


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def table(d_model: int, length: int = 120, spec: str = "sinusoidal") -> torch.Tensor:
    position = build(POSITIONS, spec, TransformerConfig(d_model=d_model, n_heads=1, max_length=length))
    return position.embed(torch.zeros(1, length, d_model), Places.span(0, length, torch.device("cpu")))[0]


@pytest.mark.usefixtures("double")
def test_each_cell_is_the_papers_formula() -> None:
    """Vaswani et al. 2017, section 3.5, cell by cell."""
    d = 16
    for place, row in enumerate(table(d, 50).tolist()):
        for i in range(d // 2):
            angle = place / 10000 ** (2 * i / d)
            assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-12)
            assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("steps", [1, 7, 31])
def test_going_some_steps_is_one_rotation_whatever_the_place(steps: int) -> None:
    """PE(pos + k) = T(k) PE(pos): T turns each pair by k times its rate; it is orthogonal, T(j) T(k) = T(j + k)."""
    d = 64
    rates = 10000.0 ** (-torch.arange(0, d, 2) / d)

    def turn(k: int) -> torch.Tensor:
        blocks = [
            torch.stack([torch.stack([(k * r).cos(), (k * r).sin()]), torch.stack([-(k * r).sin(), (k * r).cos()])])
            for r in rates
        ]
        return torch.block_diag(*blocks)

    pe = table(d)
    torch.testing.assert_close(pe[steps:], pe[:-steps] @ turn(steps).T, atol=1e-10, rtol=0)
    torch.testing.assert_close(turn(steps) @ turn(steps).T, torch.eye(d), atol=1e-10, rtol=0)
    torch.testing.assert_close(turn(steps) @ turn(2), turn(steps + 2), atol=1e-10, rtol=0)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("d", [128, 512])
def test_the_dot_product_of_two_places_depends_on_their_distance_only(d: int) -> None:
    pe = table(d)
    gram = pe @ pe.T
    rates = 10000.0 ** (-torch.arange(0, d, 2) / d)
    place = torch.arange(120)
    distance = (place[:, None] - place[None, :]).double()
    torch.testing.assert_close(gram, (distance[:, :, None] * rates).cos().sum(-1), atol=1e-10, rtol=0)
    assert torch.equal(gram.argmax(dim=1), place)
    torch.testing.assert_close(gram.diagonal(), torch.full((120,), d / 2), atol=1e-10, rtol=0)
    near, middle, far = gram[0, 1:11].mean(), gram[0, 11:51].mean(), gram[0, 51:101].mean()
    assert near > middle > far


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("d", "first_rise"), [(128, 12), (512, 44)])
def test_nearer_is_more_alike_only_roughly(d: int, first_rise: int) -> None:
    """The dot product falls with the distance up to 11 places (d_model 128) or 43 (512), then it ripples.

    Both numbers are those of the sum of cos(k * rate) in plain Python; before and behind are not told apart.
    """
    pe = table(d)
    product = (pe @ pe.T)[0].tolist()
    by_formula = [sum(math.cos(k * 10000 ** (-2 * i / d)) for i in range(d // 2)) for k in range(120)]
    assert product == pytest.approx(by_formula, abs=1e-9)
    rises = [k for k in range(1, 120) if by_formula[k] > by_formula[k - 1]]
    assert rises[0] == first_rise
    assert [k for k in range(1, 120) if product[k] > product[k - 1]] == rises
    assert (pe[60] @ pe[50]).item() == pytest.approx((pe[60] @ pe[70]).item())


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("d", [8, 64, 512])
def test_wavelengths_run_from_2_pi_towards_10000_times_that_whatever_the_width(d: int) -> None:
    """The width says how finely they are sampled: each is 10000^(2/d) times the one before."""
    pe = table(d, spec="sinusoidal(layout='halves')")
    rates = torch.atan2(pe[1, : d // 2], pe[1, d // 2 :])  # place 1 turns each pair by its rate
    lengths = 2 * math.pi / rates
    ratio = 10000 ** (2 / d)
    assert lengths[0].item() == pytest.approx(2 * math.pi)
    assert (lengths[1:] / lengths[:-1]).tolist() == pytest.approx([ratio] * (d // 2 - 1))
    assert lengths[-1].item() * ratio == pytest.approx(10000 * 2 * math.pi)


@pytest.mark.usefixtures("double")
def test_every_place_has_a_vector_of_one_length() -> None:
    """Which is why places are not simply numbered: 0, 1, 2 .. 99 would drown the words at the end of a sentence."""
    d = 64
    norms, numbers = table(d, 100).norm(dim=1), torch.arange(100.0)[:, None].expand(100, d).norm(dim=1)
    assert norms.tolist() == pytest.approx([math.sqrt(d / 2)] * 100)
    assert numbers[-1] > 100 * norms[-1]


@pytest.mark.usefixtures("double")
def test_the_rotation_has_the_minus_of_the_addition_theorem() -> None:
    """cos(a + b) = cos a cos b - sin a sin b; with a plus, as one may find it printed, nothing fits."""
    pe = table(16)
    sin, cos = pe[:, 0::2], pe[:, 1::2]
    torch.testing.assert_close(cos[12], cos[5] * cos[7] - sin[5] * sin[7], atol=1e-12, rtol=0)
    assert (cos[12] - (cos[5] * cos[7] + sin[5] * sin[7])).abs().max() > 0.1


def test_halves_are_the_papers_columns_in_another_order() -> None:
    paper, halves = table(32), table(32, spec="sinusoidal(layout='halves')")
    assert torch.equal(halves, torch.cat((paper[:, 0::2], paper[:, 1::2]), dim=1))


@pytest.mark.usefixtures("double")
def test_fairseqs_longest_wavelength_is_10000_times_2_pi() -> None:
    """tensor2tensor and fairseq divide the exponent by d/2 - 1; their first place is padding_idx + 1."""
    d, offset = 32, 2
    pe = table(d, spec=f"sinusoidal(layout='fairseq', offset={offset})")
    for place in (0, 1, 100):
        for i in range(d // 2):
            angle = (place + offset) * 10000 ** (-i / (d // 2 - 1))
            assert pe[place, i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert pe[place, d // 2 + i].item() == pytest.approx(math.cos(angle), abs=1e-12)
    assert pe[0, d // 2 - 1].item() == pytest.approx(math.sin(offset / 10000), abs=1e-15)


def test_float32_is_the_exact_value_rounded_once() -> None:
    """Sines of large float32 angles would be off in the fourth digit."""
    place, d = 4999, 16
    row = table(d, 5000)[place]
    exact = [math.sin(place / 10000 ** (2 * i / d)) for i in range(d // 2)]
    assert torch.equal(row[0::2], torch.tensor(exact, dtype=torch.float64).float())


def test_places_beyond_the_table_are_computed() -> None:
    sizes = TransformerConfig(d_model=8, n_heads=1, max_length=10)
    short, long = Sinusoidal(sizes), table(8, 300)
    at = Places.span(270, 300, torch.device("cpu"))
    assert torch.equal(short.embed(torch.zeros(1, 30, 8), at)[0], long[270:])


def test_positions_are_added_in_the_dtype_of_the_embeddings() -> None:
    position = Sinusoidal(TransformerConfig(d_model=8, n_heads=1))
    x = torch.ones(2, 5, 8, dtype=torch.bfloat16)
    assert position.embed(x, Places.span(0, 5, x.device)).dtype == torch.bfloat16


def test_there_is_nothing_to_learn_and_nothing_to_save() -> None:
    position = Sinusoidal(TransformerConfig(d_model=8, n_heads=1))
    assert not list(position.parameters())
    assert not position.state_dict()


@pytest.mark.parametrize(
    ("spec", "d_model", "message"),
    [
        ("sinusoidal(layout='half')", 8, "did you mean 'halves'"),
        ("sinusoidal", 7, "d_model must be even and at least 2, not 7"),
        ("sinusoidal(layout='fairseq')", 2, "d_model must be even and at least 4, not 2"),
        ("sinusoidal(lay='halves')", 8, "did you mean 'layout'"),
        ("sinusoid", 8, "did you mean 'sinusoidal'"),
    ],
)
def test_what_cannot_be_is_refused(spec: str, d_model: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(POSITIONS, spec, TransformerConfig(d_model=d_model, n_heads=1))


def test_a_position_does_nothing_unless_it_says_so() -> None:
    x = torch.randn(2, 3, 8)
    at = Places.span(0, 3, x.device)
    nothing = Position()
    assert nothing.embed(x, at) is x
    assert nothing.rotate(x, at) is x
    assert nothing.score(x, x, at) is None


def test_a_span_looks_back_over_everything() -> None:
    at = Places.span(3, 5, torch.device("cpu"))
    assert at.query.tolist() == [3, 4]
    assert at.key.tolist() == [0, 1, 2, 3, 4]
