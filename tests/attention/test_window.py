"""Windows and blocks: full attention under a banded mask, at a cost that grows with the length alone."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from qkv import block_kernel
from qkv.attention import KeyValues, MultiHead, Soft, build_attention, causal
from qkv.config import parse_call
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
    name, o = parse_call(spec)
    g = o.get("global_tokens", 0)
    sees = {
        "window": lambda i, j: abs(i - j) <= o["radius"] or i < g or j < g,
        "local": lambda i, j: 0 <= i // o["block"] - j // o["block"] <= o.get("before", 0),
    }[name]
    return torch.tensor([[sees(i, j) for j in range(length)] for i in range(length)])


SPECS = [
    "window(radius=1)",
    "window(radius=5)",
    "window(radius=70)",
    "window(radius=3, global_tokens=2)",
    "window(radius=5, global_tokens=64)",
    "window(radius=1, global_tokens=70)",
    "local(block=1)",
    "local(block=8)",
    "local(block=100)",
    "local(block=1, before=1)",
    "local(block=8, before=1)",
    "local(block=8, before=3)",
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
    seen = build_attention("local(block=3, before=1)", SIZES, "decoder").plain(q, k, v, at, causal(at))[1][0, 0] > 0
    assert [row.nonzero().flatten().tolist() for row in seen] == [
        [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5],
        [3, 4, 5, 6], [3, 4, 5, 6, 7], [3, 4, 5, 6, 7, 8],
    ]  # fmt: skip


def test_a_mask_says_what_is_seen_and_without_one_the_places_do() -> None:
    """A mask of padding alone lets a query see what stands behind it."""
    part = build_attention("window(radius=70)", SIZES, "decoder")
    q, k, v = draw(256)
    at, mask = Places.span(0, 256, CPU, causal=True), mask_of("padding", 256)
    torch.testing.assert_close(part.fused(q, k, v, at, mask), part.plain(q, k, v, at, mask)[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(("spec", "most"), [
    ("window(radius=5)", 6), ("window(radius=5, global_tokens=2)", 8), ("local(block=6)", 6),
    ("local(block=6, before=1)", 12),
])  # fmt: skip
@pytest.mark.parametrize("starts", [(0, 0, 0), (0, 3, 9)])
def test_the_cache_grows_no_further_than_what_can_be_seen(spec: str, most: int, starts: tuple[int, ...]) -> None:
    """Prompts of 10 tokens, padded in front; then 25 tokens one by one, while rows change places and one leaves."""
    torch.manual_seed(0)
    attend = MultiHead(TransformerConfig(d_model=8, n_heads=2), attention=spec, use="decoder").double()
    x, seen = torch.randn(3, 35, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64), KeyValues()
    real = torch.arange(35) >= torch.tensor(starts)[:, None]
    at = Places.counted(real, 35, causal=True) if any(starts) else Places.span(0, 35, CPU, causal=True)
    whole = attend(x, at, mask=causal(at) & real[:, None, None])
    rows = torch.arange(3)
    for start, stop in [(0, 10), *((t, t + 1) for t in range(10, 35))]:
        if stop == 20:
            rows = torch.tensor([2, 1])
            seen.reorder(rows)
        its = real[rows, :stop]
        here = Places.span(start, stop, CPU, causal=True)
        if any(starts):
            here = Places.counted(its, stop - start, causal=True)
        step = attend(x[rows, start:stop], here, mask=causal(here) & its[:, None, None], seen=seen)
        torch.testing.assert_close(step[its[:, start:]], whole[rows, start:stop][its[:, start:]], atol=1e-9, rtol=0)
        if stop > 12 + max(starts):
            assert seen.k is not None
            assert seen.k.size(2) <= most + (max(starts) if "global" in spec else 0)


@pytest.mark.parametrize("large", [0, 10**9])
@pytest.mark.parametrize(
    "spec", ["window(radius=5, global_tokens=3)", "local(block=8, before=1)", "bigbird(block=8, random=1)"]
)
def test_neither_the_size_of_a_piece_nor_copies_of_keys_change_a_number(
    spec: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block of queries at a time, and keys that are read where they stand: not side by side in memory."""
    part, at = build_attention(spec, SIZES, "encoder"), Places.span(0, 250, CPU)
    found = []
    for cells in (10**9, 1):
        monkeypatch.setattr(block_kernel, "CELLS", cells)
        monkeypatch.setattr(block_kernel, "LARGE", large)
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in draw(250))
        context = part.fused(q, k, v, at)
        along = torch.randn(context.shape, generator=torch.Generator().manual_seed(1), dtype=context.dtype)
        found.append((context, *torch.autograd.grad((context * along).sum(), (q, k, v))))
    torch.testing.assert_close(*found, atol=1e-9, rtol=0)


def test_dropout_is_the_same_on_the_way_back() -> None:
    """Half of all weights are dropped, and the gradient is that of what is left: by finite differences."""
    part, at = (
        build_attention("window(radius=5, global_tokens=3, dropout=0.5)", SIZES, "encoder"),
        Places.span(0, 250, CPU),
    )
    q, k, v = (x.requires_grad_() for x in draw(250))
    along = torch.randn(q.shape, generator=torch.Generator().manual_seed(1), dtype=q.dtype)

    def project(k: Tensor) -> Tensor:
        torch.manual_seed(3)
        return (part.fused(q, k, v, at) * along).sum()

    (gradient,) = torch.autograd.grad(project(k), k)
    step = torch.zeros_like(k)
    step[1, 0, 100, 2] = 1e-6
    with torch.no_grad():
        slope = (project(k + step) - project(k - step)) / 2e-6
        assert not torch.equal(project(k), (part.eval().fused(q, k, v, at) * along).sum())
    torch.testing.assert_close(gradient[1, 0, 100, 2], slope, atol=1e-5, rtol=1e-4)


class Far(Position):
    """A position encoding that adds to the scores of all pairs."""

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return -0.1 * (at.query[:, None] - at.key).abs().to(q.dtype)


@pytest.mark.parametrize("spec", ["window(radius=5)", "local(block=8)"])
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


@pytest.mark.parametrize(("spec", "slope"), [("window(radius=64)", 1), ("local(block=64)", 1), ("soft", 2)])
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
