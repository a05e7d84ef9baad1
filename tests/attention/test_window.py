"""Windows and blocks: full attention under a banded mask, at a cost that grows with the length alone."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from qkv.attention import Soft, build_attention, causal
from qkv.layers import Stack
from qkv.models import TransformerConfig
from qkv.positions import Places, Position

B, H, K = 2, 2, 4
CPU = torch.device("cpu")
SIZES = TransformerConfig(d_model=H * K, n_heads=H)


def draw(length: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    return tuple(torch.randn(B, H, length, K, generator=generator, dtype=dtype) for _ in range(3))  # type: ignore[return-value]


def by_hand(spec: str, length: int) -> Tensor:
    """Who may see whom, pair by pair."""
    name, number = spec.rstrip(")").split("(")
    n = int(number.split("=")[1])
    sees = {"window": lambda i, j: abs(i - j) <= n, "blocks": lambda i, j: i // n - j // n in (0, 1)}[name]
    return torch.tensor([[sees(i, j) for j in range(length)] for i in range(length)])


SPECS = [
    "window(radius=1)",
    "window(radius=5)",
    "window(radius=70)",
    "blocks(size=1)",
    "blocks(size=8)",
    "blocks(size=100)",
]
MASKS = ["none", "padding", "causal", "both", "by head"]


def mask_of(kind: str, length: int) -> Tensor | None:
    at = Places.span(0, length, CPU)
    real = (torch.arange(length) < torch.tensor([length, length // 3])[:, None])[:, None, None]
    by_head = torch.rand(1, H, length, length, generator=torch.Generator().manual_seed(0)) < 0.5
    masks = {"none": None, "padding": real, "causal": causal(at), "both": real & causal(at), "by head": by_head}
    return masks[kind]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("spec", SPECS)
def test_both_forms_are_full_attention_under_a_banded_mask(spec: str, kind: str) -> None:
    """Lengths that fill the last block and that do not; gradients too."""
    part = build_attention(spec, SIZES, "encoder")
    for length in (5, 67, 256):
        q, k, v = (x.requires_grad_() for x in draw(length))
        at, given, band = Places.span(0, length, CPU), mask_of(kind, length), by_hand(spec, length)
        mask = band if given is None else band & given
        expected, weights = Soft(SIZES).plain(q, k, v, at, mask)
        torch.testing.assert_close(part.plain(q, k, v, at, given), (expected, weights), atol=1e-9, rtol=0)
        found = part.fused(q, k, v, at, given)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
        along = torch.randn(found.shape, generator=torch.Generator().manual_seed(1), dtype=found.dtype)
        pairs = zip(*(torch.autograd.grad((x * along).sum(), (q, k, v)) for x in (found, expected)), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["at 0", "at 3", "at a block", "with gaps", "elsewhere"])
@pytest.mark.parametrize("spec", [*SPECS, "soft"])
def test_both_forms_agree_wherever_the_tokens_stand(spec: str, kind: str, is_causal: bool) -> None:
    """A text may begin in the middle of a block, leave places out, or look at one that stands elsewhere."""
    part, whole = build_attention(spec, SIZES, "encoder"), torch.arange(256)
    query = {"at 3": whole + 3, "at a block": whole + 800, "with gaps": whole + whole // 3}.get(kind, whole)
    at = Places(query=query, key=whole + 5 if kind == "elsewhere" else query, causal=is_causal)
    q, k, v = draw(256)
    expected, _ = part.plain(q, k, v, at)
    torch.testing.assert_close(part.fused(q, k, v, at), expected, atol=1e-6, rtol=0)


def test_under_a_causal_mask_blocks_are_tensor2tensors_masked_local() -> None:
    """Its own block up to itself, and the whole block before."""
    at = Places.span(0, 9, CPU)
    q, k, v = draw(9)
    seen = build_attention("blocks(size=3)", SIZES, "decoder").plain(q, k, v, at, causal(at))[1][0, 0] > 0
    assert [row.nonzero().flatten().tolist() for row in seen] == [
        [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5],
        [3, 4, 5, 6], [3, 4, 5, 6, 7], [3, 4, 5, 6, 7, 8],
    ]  # fmt: skip


class Far(Position):
    """A position encoding that adds to the scores of all pairs."""

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return -0.1 * (at.query[:, None] - at.key).abs().to(q.dtype)


@pytest.mark.parametrize("spec", ["window(radius=5)", "blocks(size=8)"])
def test_a_position_that_touches_the_scores_is_heard(spec: str) -> None:
    part, at = build_attention(spec, SIZES, "encoder"), Places.span(0, 250, CPU)
    q, k, v = draw(250)
    expected = part.plain(q, k, v, at, None, Far())[0]
    assert not torch.allclose(expected, part.plain(q, k, v, at)[0])
    torch.testing.assert_close(part(q, k, v, at, None, Far()), expected, atol=1e-9, rtol=0)


def products(spec: str, length: int) -> int:
    """Multiplications and additions in the products of matrices, counted by torch."""
    part, at = build_attention(spec, SIZES, "encoder"), Places.span(0, length, CPU)
    q, k, v = (x[:1, :1] for x in draw(length, torch.float32))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        part.fused(q, k, v, at)
    return counter.get_total_flops()


@pytest.mark.parametrize(("spec", "slope"), [("window(radius=64)", 1), ("blocks(size=64)", 1), ("soft", 2)])
def test_cost_grows_with_the_length_and_not_with_its_square(spec: str, slope: int) -> None:
    """On a log-log scale, from 1,024 to 4,096 tokens; full attention beside it."""
    few, many = products(spec, 1024), products(spec, 4096)
    assert few > 0
    assert abs(math.log(many / few) / math.log(4) - slope) < 0.05


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_each_layer_reaches_one_radius_further(layers: int) -> None:
    """After L layers a token has heard from L * radius tokens on each side, and from no other."""
    radius, length, here = 2, 21, 10
    torch.manual_seed(0)
    sizes = {"d_model": 8, "d_ff": 8, "n_heads": 2, "dropout": 0.0, "position": "none"}
    stack = Stack(TransformerConfig(**sizes, encoder_attention=f"window(radius={radius})"), layers=layers)
    x = torch.randn(1, length, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    hidden = stack(x, Places.span(0, length, CPU), None)[0, here]
    (gradient,) = torch.autograd.grad((hidden * torch.randn(8, generator=torch.Generator().manual_seed(2))).sum(), x)
    heard = gradient[0].any(-1).nonzero().flatten().tolist()
    assert heard == list(range(here - layers * radius, here + layers * radius + 1))
