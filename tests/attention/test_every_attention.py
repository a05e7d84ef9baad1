"""What must hold for every attention and every score: padding, caching, blind rows, half precision, recording."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from kit import close, draw
from qkv.attention import ATTENTIONS, SCORES, KeyValues, MultiHead, Soft, causal, padding
from qkv.attention.soft import SHORT
from qkv.look import record_attention
from qkv.models import TransformerConfig
from qkv.positions import Places

# Options that let an attention show itself on short texts; a new attention is tested as it is.
OPTIONS = {
    "hard": "hard(sampling=1.0)", "top_k": "top_k(k=3)", "local_m": "local_m(radius=2)",
    "local_p": "local_p(radius=3)", "window": "window(radius=2)", "local": "local(block=3, before=1)",
    "bigbird": "bigbird(block=2, random=1)", "linformer": "linformer(k=4)",
    "memory_compressed": "memory_compressed(factor=2)",
}  # fmt: skip
REGIONS_OF_SCORES = ["local_m(radius=2, score='additive(width=5)')", "scope(limit='document', score='general')"]
SPECS = [OPTIONS.get(name, name) for name in (*ATTENTIONS, *SCORES)] + REGIONS_OF_SCORES
B, T, S, D, H = 3, 7, 9, 24, 3
LENGTHS = (9, 5, 1)
IDS = torch.arange(1, S + 1) * (torch.arange(S) < torch.tensor(LENGTHS)[:, None])
SENTENCE = torch.arange(S).expand(B, S) // 4
CPU = torch.device("cpu")


def uses(spec: str) -> tuple[str, ...]:
    return kind(spec).uses


def kind(spec: str) -> type[Soft]:
    return ATTENTIONS.get(spec.split("(")[0], Soft)


def attention(spec: str, use: str) -> MultiHead:
    torch.manual_seed(0)
    built = MultiHead(
        TransformerConfig(d_model=D, n_heads=H, max_length=80, attention_bias=True), attention=spec, use=use
    )
    with torch.no_grad():
        for linear in (built.query, built.key):
            linear.weight.mul_(3)  # so that attention chooses
    return built.eval()


def fitting(use: str) -> list[str]:
    return [spec for spec in SPECS if use in uses(spec)]


def text(rows: int = B, length: int = S) -> Places:
    return Places.span(0, length, CPU, sentence=SENTENCE[:rows, :length])


@pytest.mark.parametrize("spec", fitting("encoder"))
def test_a_padded_row_equals_the_row_alone(spec: str) -> None:
    attend, x = attention(spec, "encoder"), draw(B, S, D)
    together = attend(x, text(), mask=padding(IDS, 0))
    dirty = attend(x.masked_fill(IDS[:, :, None] == 0, 50.0), text(), mask=padding(IDS, 0))
    for row, length in enumerate(LENGTHS):
        alone = attend(x[row : row + 1, :length], text(1, length))
        close(together[row, :length], alone[0])
        close(dirty[row, :length], alone[0])


@pytest.mark.parametrize("length", [S, SHORT + 16])  # the plain form and the fused one
@pytest.mark.parametrize("spec", fitting("encoder"))
def test_a_row_padded_in_front_equals_the_row_alone(spec: str, length: int) -> None:
    """Places are counted in each row from its first real token: text that stands elsewhere is the same text."""
    attend, x, sentence = attention(spec, "encoder"), draw(B, length, D), torch.arange(length).expand(B, length) // 4
    starts = (0, 5, length - 1)
    real = torch.arange(length) >= torch.tensor(starts)[:, None]
    at = Places.counted(real, length, sentence=sentence)
    together = attend(x.masked_fill(~real[:, :, None], 50.0), at, mask=real[:, None, None])
    for row, start in enumerate(starts):
        alone = Places.span(0, length - start, CPU, sentence=sentence[row : row + 1, start:])
        close(together[row, start:], attend(x[row : row + 1, start:], alone)[0])


@pytest.mark.parametrize("spec", fitting("memory"))
def test_queries_of_each_row_over_a_memory(spec: str) -> None:
    attend, x, memory = attention(spec, "memory"), draw(B, T, D), draw(B, S, D, seed=2)
    starts = torch.tensor([0, 2, 4])[:, None]
    place = starts + torch.arange(T)
    together = attend(x, Places(query=place, key=place), memory=memory)
    for row in range(B):
        alone = Places(query=place[row], key=place[row])
        close(together[row], attend(x[row : row + 1], alone, memory=memory[row : row + 1])[0])


@pytest.mark.parametrize("length", [S, SHORT + 16])
@pytest.mark.parametrize("spec", fitting("decoder"))
def test_without_a_mask_a_causal_attention_hides_the_future_itself(spec: str, length: int) -> None:
    attend, x = attention(spec, "decoder"), draw(B, length, D)
    at = Places.span(0, length, CPU, causal=True)
    close(attend(x, at), attend(x, at, mask=causal(at)))
    place = torch.randperm(length, generator=torch.Generator().manual_seed(2))  # tokens that do not stand in order
    for places in (place, place.expand(B, length)):
        elsewhere = Places(query=places, key=places, causal=True)
        close(attend(x, elsewhere), attend(x, elsewhere, mask=causal(elsewhere)))


@pytest.mark.parametrize("spec", fitting("decoder"))
def test_one_token_at_a_time_equals_all_at_once(spec: str) -> None:
    attend, x, seen = attention(spec, "decoder"), draw(B, T, D), KeyValues()
    at = Places.span(0, T, CPU, causal=True)
    steps = [attend(x[:, t : t + 1], Places.span(t, t + 1, CPU, causal=True), seen=seen) for t in range(T)]
    close(torch.cat(steps, dim=1), attend(x, at, mask=causal(at)))


@pytest.mark.parametrize("spec", fitting("memory"))
def test_one_token_at_a_time_over_a_memory_with_padding(spec: str) -> None:
    attend, x, memory, seen = attention(spec, "memory"), draw(B, T, D), draw(B, S, D, seed=2), KeyValues()
    whole = attend(x, Places.span(0, T, CPU), memory=memory, mask=padding(IDS, 0))
    for t in range(T):
        step = attend(x[:, t : t + 1], Places.span(t, t + 1, CPU), memory=memory, mask=padding(IDS, 0), seen=seen)
        close(step[:, 0], whole[:, t])
    for row, length in enumerate(LENGTHS):
        close(attend(x[row : row + 1], Places.span(0, T, CPU), memory=memory[row : row + 1, :length])[0], whole[row])


@pytest.mark.parametrize("spec", fitting("decoder"))
def test_the_future_has_no_gradient_and_a_prefix_is_enough(spec: str) -> None:
    attend, x = attention(spec, "decoder"), draw(1, T, D).requires_grad_()
    at = Places.span(0, T, CPU, causal=True)
    whole = attend(x, at, mask=causal(at))
    for t in range(T):
        (gradient,) = torch.autograd.grad((whole[0, t] * draw(D, seed=3)).sum(), x, retain_graph=True)
        assert not gradient[0, t + 1 :].any()
        assert gradient[0, : t + 1].any() or (kind(spec).shortens and t == 0)  # whose first slot is not full yet
        prefix = Places.span(0, t + 1, CPU, causal=True)
        close(attend(x[:, : t + 1], prefix, mask=causal(prefix)), whole[:, : t + 1])


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if kind(spec).hides_pairs])
def test_weights_are_zero_where_nothing_may_be_seen(spec: str, is_training: bool) -> None:
    """Every second query of the second row is blind: zeros, and no gradient that is not a number."""
    attend = attention(spec, uses(spec)[0]).train(is_training).attend
    q, k, v = (draw(B, H, S, D // H, seed=seed).requires_grad_() for seed in (1, 2, 3))
    mask = (padding(IDS, 0) & causal(text())).clone()
    mask[1, :, ::2] = False
    context, weights = attend.plain(q, k, v, text(), mask)
    assert weights.shape == (B, H, S, S)
    assert not weights[~mask.expand(B, H, S, S)].any()
    assert (weights >= 0).all()
    assert (weights.sum(-1) < 1 + 1e-5).all()
    assert not context[1, :, ::2].any()
    assert context[1, :, 1::2].any()
    if not kind(spec).shortens:
        close(weights @ v, context)
    for gradient in torch.autograd.grad((context * draw(*context.shape, seed=4)).sum(), (q, k, v), allow_unused=True):
        assert gradient is None or gradient.isfinite().all()  # hard attention gives none to q, location none to k


@pytest.mark.parametrize("spec", [spec for spec in fitting("decoder") if not kind(spec).shortens])
def test_the_first_token_sees_itself_alone(spec: str) -> None:
    attend = attention(spec, "decoder").attend
    q, k, v = (draw(B, H, T, D // H, seed=seed) for seed in (1, 2, 3))
    at = Places.span(0, T, CPU, causal=True)
    first = attend.plain(q, k, v, at, causal(at))[1][:, :, 0]
    assert not first[..., 1:].any()
    if not spec.startswith("local_p"):  # whose Gaussian is not normalised
        close(first[..., 0], torch.ones(B, H))


@pytest.mark.parametrize("length", [S, SHORT + 16])
@pytest.mark.parametrize("spec", SPECS)
def test_what_is_recorded_is_what_was_computed(spec: str, length: int) -> None:
    """Beyond SHORT keys the fused form has run, where there is one."""
    model = nn.Module()
    model.layer = attention(spec, uses(spec)[0])
    x, at = draw(B, length, D), Places.span(0, length, CPU, sentence=torch.arange(length).expand(B, length) // 4)
    whole = model.layer(x, at)
    with record_attention(model) as maps:
        close(model.layer(x, at), whole)
    assert maps["layer"].shape == (B, H, length, length)
    v = model.layer.heads(model.layer.value(x))
    if spec.startswith("memory_compressed"):
        return  # whose values are convolved
    close(model.layer.output((maps["layer"] @ v).transpose(1, 2).flatten(2)), whole)


@pytest.mark.parametrize("spec", SPECS)
def test_half_precision(spec: str) -> None:
    """bfloat16 has 8 bits: most numbers agree within a few hundredths; a choice may fall otherwise here and there."""
    attend, x = attention(spec, uses(spec)[0]), draw(B, S, D)
    exact = attend(x, text(), mask=padding(IDS, 0))
    with torch.autocast("cpu", torch.bfloat16):
        rough = attend(x, text(), mask=padding(IDS, 0))
        trained = attend.train()(x, text(), mask=padding(IDS, 0))
    assert rough.dtype == torch.bfloat16
    assert (rough - exact).abs().median() < 0.02
    (trained * draw(*trained.shape)).sum().backward()
    assert all(p.grad.isfinite().all() for p in attend.parameters() if p.grad is not None)


def parameters() -> Iterator[tuple[str, str]]:
    for spec in SPECS:
        for name, parameter in attention(spec, uses(spec)[0]).attend.named_parameters():
            if parameter.requires_grad:
                yield spec, name


@pytest.mark.parametrize(("spec", "name"), list(parameters()))
def test_every_weight_of_an_attention_learns(spec: str, name: str) -> None:
    attend, x = attention(spec, uses(spec)[0]), draw(B, S, D)
    result = attend(x, text(), mask=padding(IDS, 0))
    gradient = torch.autograd.grad((result * draw(*result.shape)).sum(), attend.attend.get_parameter(name))[0]
    assert gradient.isfinite().all()
    assert gradient.flatten(1).any(dim=1).all()  # in every head


@pytest.mark.parametrize("n_heads", [1, 3, 8])
@pytest.mark.parametrize("spec", SPECS)
def test_any_number_of_heads_begins_finite(spec: str, n_heads: int) -> None:
    built = MultiHead(TransformerConfig(d_model=24, n_heads=n_heads, max_length=S), attention=spec, use=uses(spec)[0])
    assert all(p.isfinite().all() for p in built.parameters())
    assert built(draw(B, S, 24), text()).isfinite().all()
