"""The same weights give the same numbers as torch.nn's attention and layers, forward and backward."""

from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from kit import draw
from qkv.attention import MultiHead, causal, from_blocked
from qkv.layers import Block, Residual
from qkv.models import TransformerConfig
from qkv.positions import NO_POSITION, Places

D, F, H, B, T, S = 32, 48, 4, 3, 7, 9
Module = TypeVar("Module", bound=nn.Module)
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]

ATTENTION = {"query": 0, "key": 1, "value": 2}  # which third of torch's packed in_proj each of ours is
ENCODER = {
    "attention": "self_attn",
    "attention_residual.norm": "norm1",
    "feed_forward.expand": "linear1",
    "feed_forward.contract": "linear2",
    "feed_forward_residual.norm": "norm2",
}
DECODER = ENCODER | {
    "memory_attention": "multihead_attn",
    "memory_residual.norm": "norm2",
    "feed_forward_residual.norm": "norm3",
}


def config(**others: object) -> TransformerConfig:
    return TransformerConfig(d_model=D, d_ff=F, n_heads=H, dropout=0.0, attention_bias=True, **others)


def randomised(module: Module, dtype: torch.dtype) -> Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.3)
    return module.to(dtype)


def copy_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    for name, third in ATTENTION.items():
        linear = ours.get_submodule(name)
        linear.weight.data.copy_(theirs.in_proj_weight.chunk(3)[third])
        linear.bias.data.copy_(theirs.in_proj_bias.chunk(3)[third])
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_layer(ours: Block, theirs: nn.Module, names: dict[str, str]) -> None:
    for own, other in names.items():
        target, source = ours.get_submodule(own), theirs.get_submodule(other)
        if isinstance(target, MultiHead):
            copy_attention(target, source)
        else:
            target.load_state_dict(source.state_dict())


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Theirs under our names: the packed projection is cut in three."""
    found = {}
    for name, parameter in module.named_parameters():
        prefix, _, kind = name.rpartition("in_proj_")
        if name.endswith(("in_proj_weight", "in_proj_bias")):
            for own, third in ATTENTION.items():
                found[f"{prefix}{own}.{kind}"] = parameter.grad.chunk(3)[third]
        else:
            found[name.replace("out_proj", "output")] = parameter.grad
    return found


def assert_same_gradients(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    expected = gradients(theirs)
    compared = 0
    for own, other in names.items():
        for name, parameter in ours.get_submodule(own).named_parameters():
            wanted = expected[f"{other}.{name}" if other else name]
            # A key's bias has no gradient but rounding: softmax does not see it.
            scale = 1.0 if name == "key.bias" else wanted.abs().max()
            assert (parameter.grad - wanted).abs().max() <= 1e-4 * scale, f"{own}.{name}"
            compared += 1
    assert compared == len(list(ours.parameters()))


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (B, T, D), memory (B, S, D), blocked memory (B, S) and a direction to project results on."""
    generator = torch.Generator().manual_seed(1)
    x, memory, along = (torch.randn(B, n, D, generator=generator, dtype=dtype) for n in (T, S, T))
    blocked = torch.arange(S)[None, :] >= torch.tensor([S, 4, 1])[:, None]
    return x, memory, blocked, along


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("case", ["whole", "padded", "causal", "memory"])
def test_multi_head_attention(case: str, dtype: torch.dtype, tolerance: float) -> None:
    theirs = randomised(nn.MultiheadAttention(D, H, batch_first=True), dtype)
    ours = MultiHead(config()).to(dtype)
    copy_attention(ours, theirs)
    x, memory, blocked, along = inputs(dtype)
    at = Places.span(0, T, x.device)
    there = memory if case == "memory" else x
    blocked = blocked[:, : there.size(1)] if case in ("padded", "memory") else None
    ahead = ~causal(at) if case == "causal" else None
    expected, _ = theirs(x, there, there, key_padding_mask=blocked, attn_mask=ahead)
    mask = causal(at) if case == "causal" else None if blocked is None else from_blocked(blocked)[:, None, None, :]
    found = ours(x, at, memory=memory if case == "memory" else None, mask=mask)
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
    (expected * along).sum().backward()
    (found * along).sum().backward()
    assert_same_gradients(ours, theirs, {"": ""})


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layer(norm: str, dtype: torch.dtype, tolerance: float) -> None:
    theirs = randomised(nn.TransformerEncoderLayer(D, H, F, 0.0, batch_first=True, norm_first=norm == "pre"), dtype)
    ours = Block(config(norm=norm)).to(dtype)
    copy_layer(ours, theirs, ENCODER)
    _, x, blocked, _ = inputs(dtype)
    along = draw(*x.shape, seed=2, dtype=dtype) * ~blocked[:, :, None]
    expected = theirs(x, src_key_padding_mask=blocked)
    found = ours(x, Places.span(0, S, x.device), NO_POSITION, from_blocked(blocked)[:, None, None, :])
    torch.testing.assert_close(found[~blocked], expected[~blocked], atol=tolerance, rtol=0)
    (expected * along).sum().backward()
    (found * along).sum().backward()
    assert_same_gradients(ours, theirs, ENCODER)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layer(norm: str, dtype: torch.dtype, tolerance: float) -> None:
    theirs = randomised(nn.TransformerDecoderLayer(D, H, F, 0.0, batch_first=True, norm_first=norm == "pre"), dtype)
    ours = Block(config(norm=norm), use="decoder", has_memory=True).to(dtype)
    copy_layer(ours, theirs, DECODER)
    x, memory, blocked, along = inputs(dtype)
    at = Places.span(0, T, x.device)
    expected = theirs(x, memory, tgt_mask=~causal(at), memory_key_padding_mask=blocked)
    mask = from_blocked(blocked)[:, None, None, :]
    found = ours(x, at, NO_POSITION, causal(at), memory, mask)
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
    (expected * along).sum().backward()
    (found * along).sum().backward()
    assert_same_gradients(ours, theirs, DECODER)


def test_one_flipped_sign_is_seen() -> None:
    """The guard of the comparison itself, weight by weight."""
    theirs = randomised(nn.TransformerDecoderLayer(D, H, F, 0.0, batch_first=True), torch.float32)
    ours = Block(config(), use="decoder", has_memory=True)
    copy_layer(ours, theirs, DECODER)
    x, memory, blocked, _ = inputs(torch.float32)
    at = Places.span(0, T, x.device)
    with torch.no_grad():
        expected = theirs(x, memory, tgt_mask=~causal(at), memory_key_padding_mask=blocked)
        for name, parameter in ours.named_parameters():
            parameter.neg_()
            found = ours(x, at, NO_POSITION, causal(at), memory, from_blocked(blocked)[:, None, None, :])
            parameter.neg_()
            if not name.endswith("key.bias"):
                assert (found - expected).abs().max() > 1e-3, name


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_the_norm_of_a_residual(dtype: torch.dtype, tolerance: float) -> None:
    """By torch.nn.LayerNorm, and by its definition: the biased variance, and epsilon under the root."""
    ours = randomised(Residual(D, 0.0, "post"), dtype)
    theirs = nn.LayerNorm(D).to(dtype)
    theirs.load_state_dict(ours.norm.state_dict())
    x = inputs(dtype)[0] * 3 + 1
    found = ours(x, lambda x: 0 * x)
    torch.testing.assert_close(found, theirs(x), atol=tolerance, rtol=0)
    variance = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)
    by_hand = (x - x.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt() * ours.norm.weight + ours.norm.bias
    torch.testing.assert_close(found, by_hand, atol=tolerance, rtol=0)
