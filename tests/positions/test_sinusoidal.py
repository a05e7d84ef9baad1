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
        ("sinusoidal", 7, "even d_model of at least 4, not 7"),
        ("sinusoidal(layout='fairseq')", 2, "even d_model of at least 4, not 2"),
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
