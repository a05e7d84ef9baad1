"""Rotary, ALiBi, T5 and Transformer-XL positions give Hugging Face's numbers: Llama, GPT-J, Bloom, T5, XLNet."""

import pytest
import torch
from torch import Tensor

from kit import close, draw
from qkv.attention import MultiHead, causal
from qkv.models import TransformerConfig
from qkv.positions import T5, ALiBi, Places, Rotary, TransformerXL
from qkv.positions.relative import slopes

transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")

B, T, H, K = 2, 9, 4, 8
D = H * K
SIZES = TransformerConfig(d_model=D, n_heads=H, max_length=64)
CPU = torch.device("cpu")


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary_halves_are_llamas(base: float) -> None:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    rope = {"rope_type": "default", "rope_theta": base}
    config = transformers.LlamaConfig(hidden_size=D, num_attention_heads=H, rope_parameters=rope)
    q, k, place = draw(B, H, T, K), draw(B, H, T, K, seed=2), torch.arange(5, 5 + T)
    expected = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, place[None]))
    position, at = Rotary(SIZES, base=base), Places(place, place)
    close(position.rotate(q, at), expected[0])
    close(position.rotate(k, at), expected[1])


def test_rotary_interleaved_is_gpt_js() -> None:
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    q, place = draw(B, H, T, K), torch.arange(5, 5 + T)
    sin, cos = create_sinusoidal_positions(64, K)[place].chunk(2, dim=-1)
    expected = apply_rotary_pos_emb(q.transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    close(Rotary(SIZES, layout="interleaved").rotate(q, Places(place, place)), expected)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 8, 12, 16, 20])
def test_alibi_is_blooms(n_heads: int) -> None:
    """Bloom adds slope * j, which differs from -slope * (i - j) by a constant for each query: softmax sees none."""
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, T, dtype=torch.long), n_heads, torch.float32)  # (H, 1, S)
    close(torch.tensor(slopes(n_heads)), theirs[:, 0, 1], atol=1e-7)
    position = ALiBi(TransformerConfig(d_model=n_heads * K, n_heads=n_heads))
    at, scores = Places.span(0, T, CPU, causal=True), 3 * draw(B, n_heads, T, T)
    found, expected = scores + position.score(scores, scores, at), scores + theirs
    for biased in (found, expected):
        biased.masked_fill_(~causal(at), -torch.inf)
    close(found.softmax(-1), expected.softmax(-1), atol=1e-6)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 64), (8, 20), (64, 1000)])
def test_buckets_are_t5s(buckets: int, max_distance: int, is_causal: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-1200, 1201)
    expected = T5Attention._relative_position_bucket(distance, not is_causal, buckets, max_distance)
    found = T5(SIZES, buckets=buckets, max_distance=max_distance).bucket(distance, is_causal=is_causal)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("is_decoder", [False, True])
def test_an_attention_with_t5_positions_is_t5s(is_decoder: bool) -> None:
    """Unscaled products, one bias table: all of T5's attention with the same weights, and its gradients."""
    from transformers.models.t5.modeling_t5 import T5Attention

    config = transformers.T5Config(
        d_model=D, d_kv=K, num_heads=H, dropout_rate=0.0, is_decoder=is_decoder, relative_attention_num_buckets=8,
        relative_attention_max_distance=10, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    sizes = TransformerConfig(d_model=D, n_heads=H, attention="dot")
    ours, position = MultiHead(sizes), T5(sizes, buckets=8, max_distance=10)
    pairs = {"q": ours.query.weight, "k": ours.key.weight, "v": ours.value.weight, "o": ours.output.weight}
    pairs["relative_attention_bias"] = position.table
    with torch.no_grad():
        for name, own in pairs.items():
            weight = theirs.get_parameter(f"{name}.weight").normal_(0, 0.3)
            own.copy_(weight)
    x, at = draw(B, T, D), Places.span(0, T, CPU, causal=is_decoder)
    ahead = torch.zeros(1, 1, T, T).masked_fill(~causal(at), torch.finfo(torch.float32).min)
    expected = theirs(x, mask=ahead if is_decoder else torch.zeros(1, 1, T, T))[0]
    found = ours(x, at, mask=causal(at) if is_decoder else None, position=position)
    assert expected.std() > 0.1
    close(found, expected)
    along = draw(B, T, D, seed=2)
    (found * along).sum().backward()
    (expected * along).sum().backward()
    for name, own in pairs.items():
        wanted = theirs.get_parameter(f"{name}.weight").grad
        assert (own.grad - wanted).abs().max() <= 1e-4 * wanted.abs().max(), name


@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_an_attention_with_transformer_xl_positions_is_xlnets(
    memory: int, dtype: torch.dtype, tolerance: float
) -> None:
    """XLNet's relative attention, without its segments, over the text and some tokens of memory before it."""
    theirs, ours, position = xlnet_twins(dtype)
    x = draw(memory + T, B, D).to(dtype)  # theirs is (S, B, D)
    r = sinusoids(range(memory + T, -T, -1))[:, None].expand(-1, B, -1)  # theirs in float64; their own is in float32
    close(r.float(), theirs.relative_positional_encoding(T, memory + T, bsz=B))
    r = r.to(dtype)
    core = theirs.layer[0].rel_attn
    q, k, v, k_r = (
        torch.einsum("ibh,hnd->ibnd", y, w) for y, w in ((x[memory:], core.q), (x, core.k), (x, core.v), (r, core.r))
    )
    expected = torch.einsum("ibnd,hnd->ibh", core.rel_attn_core(q, k, v, k_r), core.o).transpose(0, 1)
    at = Places.span(memory, memory + T, CPU)
    batch = x.transpose(0, 1)
    q, k, v = ours.heads(ours.query(batch[:, memory:])), ours.heads(ours.key(batch)), ours.heads(ours.value(batch))
    found = ours.output(ours.attend(q, k, v, at, None, position).transpose(1, 2).flatten(2))
    assert expected.std() > 0.1
    close(found, expected, tolerance)
    if not memory:
        close(ours(batch, at, position=position), expected, tolerance)


def sinusoids(places: range) -> Tensor:
    angle = torch.tensor(places, dtype=torch.float64)[:, None] * 10000 ** (-torch.arange(0, D, 2).double() / D)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)  # (T, D)


def xlnet_twins(dtype: torch.dtype) -> tuple[torch.nn.Module, MultiHead, TransformerXL]:
    config = transformers.XLNetConfig(vocab_size=11, d_model=D, n_layer=1, n_head=H, d_inner=16, dropout=0.0)
    torch.manual_seed(0)
    theirs = transformers.XLNetModel(config).eval()
    core = theirs.layer[0].rel_attn
    torch.set_default_dtype(dtype)  # so that our sines are as exact as the comparison
    try:
        ours, position = MultiHead(SIZES), TransformerXL(SIZES)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.normal_(0, 0.3)
        for own, other in ((ours.query, core.q), (ours.key, core.k), (ours.value, core.v), (position.project, core.r)):
            own.weight.copy_(other.flatten(1).T)
        ours.output.weight.copy_(core.o.flatten(1))
        position.u.copy_(core.r_w_bias[:, None])
        position.v.copy_(core.r_r_bias[:, None])
    return theirs.to(dtype), ours.to(dtype), position.to(dtype)
