"""FlexAttention, which serves on a GPU: what it gives by a rule is what the plain form gives under the mask."""

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention

from qkv.attention import Soft, build_attention, sparse
from qkv.models import TransformerConfig
from qkv.positions import Places

B, H, T, K = 2, 2, 260, 4
CPU = torch.device("cpu")
SIZES = TransformerConfig(d_model=H * K, n_heads=H)
LENGTHS = torch.tensor([T // 3, 0])
MASKS = {
    "none": None,
    "rows": (torch.arange(T) < LENGTHS[:, None])[:, None, None],
    "heads": (torch.arange(T) < torch.tensor([T, T - 20])[:, None])[None, :, None],
}


def draw() -> tuple[Tensor, ...]:
    rng = torch.Generator().manual_seed(1)
    return tuple(torch.randn(B, H, T, K, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(3))


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were one: its form that compiles nothing has gradients on a CPU too, though they are not let in."""
    monkeypatch.setattr(sparse, "serves", lambda q: True)
    monkeypatch.setattr(flex_attention, "_validate_device", lambda q, k, v: None)
    monkeypatch.setattr(Soft, "fused", lambda *_: pytest.fail("this is for FlexAttention"))
    monkeypatch.setattr(sparse, "block_attention", lambda *_: pytest.fail("this is for FlexAttention"))


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(
    ("spec", "first", "is_causal", "kind"),
    [
        ("window(radius=5, global_tokens=12)", 10, False, "heads"),
        ("window(radius=5, global_tokens=3)", 0, True, "none"),
        ("local(block=8, before=1)", 5, True, "none"),
        ("bigbird(block=8, random=1)", 0, False, "rows"),
    ],
)
def test_values_and_gradients_are_those_of_the_plain_form(spec: str, first: int, is_causal: bool, kind: str) -> None:
    """Texts that begin anywhere and end within a block, short rows and empty ones, heads that see other keys."""
    part, (q, k, v) = build_attention(spec, SIZES, "encoder"), draw()
    places = torch.arange(first, first + T)
    at, mask = Places(query=places, key=places, causal=is_causal), MASKS[kind]
    found, (expected, _) = part.fused(q, k, v, at, mask), part.plain(q, k, v, at, mask)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
    along = torch.randn(found.shape, generator=torch.Generator().manual_seed(2), dtype=found.dtype)
    pairs = zip(*(torch.autograd.grad((x * along).sum(), (q, k, v)) for x in (found, expected)), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


@pytest.mark.parametrize("spec", ["window(radius=5, dropout=0.5)", "bigbird(block=4, random=1, plan='transformers')"])
def test_what_no_rule_says_is_left_to_our_kernel(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are dropped, and blocks that count several times."""
    monkeypatch.setattr(sparse, "serves", lambda q: True)
    monkeypatch.setattr(sparse, "by_rule", lambda *_, **__: pytest.fail("this is not for FlexAttention"))
    part, (q, k, v) = build_attention(spec, SIZES, "encoder"), draw()
    assert part.fused(q, k, v, Places.span(0, T, CPU)).isfinite().all()


@pytest.mark.parametrize("spec", ["window(radius=5)", "local(block=8)", "bigbird(block=4, random=2)"])
def test_a_cpu_has_nothing_to_do_with_it(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "by_rule", lambda *_, **__: pytest.fail("there is no GPU"))
    part, (q, k, v) = build_attention(spec, SIZES, "encoder"), draw()
    at = Places.span(0, T, CPU)
    torch.testing.assert_close(part(q, k, v, at), part.plain(q, k, v, at)[0], atol=1e-6, rtol=0)
