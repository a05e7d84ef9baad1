"""Linformer and memory-compressed attention: against full attention in the cases where they are it, and by loops."""

import math

import pytest
import torch
from torch import Tensor, nn

from kit import tiny_model
from qkv.attention import KeyValues, MultiHead, Soft, build_attention, causal
from qkv.attention.shortened import ROWS, Linformer, MemoryCompressed
from qkv.errors import InputError
from qkv.models import TransformerConfig, count_parameters
from qkv.positions import Places

B, H, K = 2, 3, 4
CPU = torch.device("cpu")


def sizes(length: int = 64) -> TransformerConfig:
    return TransformerConfig(d_model=H * K, n_heads=H, max_length=length)


def draw(length: int, seed: int = 1) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(B, H, length, K, generator=generator, dtype=torch.float64) for _ in range(3))


def build(spec: str, use: str = "encoder", length: int = 64) -> nn.Module:
    torch.manual_seed(0)
    return build_attention(spec, sizes(length), use).double()


SPECS = [
    *(f"linformer(k=5, share={share!r})" for share in ("none", "heads", "kv", "layers")), "memory_compressed",
    "memory_compressed(factor=2, kernel=5)", "memory_compressed(factor=1)",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize("spec", SPECS)
def test_both_forms_agree(spec: str, kind: str) -> None:
    """Values and gradients; more queries than are computed together, too."""
    use = "decoder" if kind in ("causal", "both") else "encoder"
    if use == "decoder" and spec.startswith("linformer"):
        return
    for length in (1, 7, ROWS + 70):
        part = build(spec, use, length)
        q, k, v = (x.requires_grad_() for x in draw(length))
        at = Places.span(0, length, CPU, causal=use == "decoder")
        real = (torch.arange(length) < torch.tensor([[length], [length // 3]]))[:, None, None]
        mask = {"padding": real, "both": real & causal(at)}.get(kind)
        (expected, weights), found = part.plain(q, k, v, at, mask), part.fused(q, k, v, at, mask)
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
        assert weights.shape == (B, H, length, length)
        along = torch.randn(found.shape, generator=torch.Generator().manual_seed(2), dtype=found.dtype)
        inputs = (q, k, v, *part.parameters())
        gradients = (torch.autograd.grad((x * along).sum(), inputs, allow_unused=True) for x in (found, expected))
        for ours, theirs in zip(*gradients, strict=True):
            if ours is not None and theirs is not None:
                torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=0)


# -- Linformer ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["none", "heads", "kv", "layers"])
def test_linformer_with_the_identity_is_full_attention(share: str) -> None:
    part = build(f"linformer(k=9, share={share!r})", length=9)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(torch.eye(9))
    q, k, v = draw(9)
    at = Places.span(0, 9, CPU)
    torch.testing.assert_close(part.plain(q, k, v, at), Soft(sizes()).plain(q, k, v, at), atol=1e-9, rtol=0)


def test_linformer_by_a_loop() -> None:
    part = build("linformer(k=2, share='none')", length=9)
    assert isinstance(part, Linformer)
    q, k, v = draw(7)
    found = part(q, k, v, Places.span(0, 7, CPU))
    for b in range(B):
        for h in range(H):
            slots = [sum(part.of_keys[h, j, s] * k[b, h, s] for s in range(7)) for j in range(2)]
            values = [sum(part.of_values[h, j, s] * v[b, h, s] for s in range(7)) for j in range(2)]
            for t in range(7):
                e = [math.exp((q[b, h, t] @ slot).item() / math.sqrt(K)) for slot in slots]
                expected = sum(weight / sum(e) * value for weight, value in zip(e, values, strict=True))
                torch.testing.assert_close(found[b, h, t], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("share", "count"), [("none", 4 * 2 * H), ("heads", 4 * 2), ("kv", 4), ("layers", 1)])
def test_linformer_has_as_many_weights_as_the_paper_says(share: str, count: int) -> None:
    """Section 4: L * 2 * h * n k, L * 2 * n k, L * n k and n k."""
    given = {"d_model": H * K, "n_heads": H, "layers": 4, "max_length": 40}
    more = count_parameters(tiny_model("bert", **given, attention=f"linformer(k=5, share={share!r})"))
    assert more - count_parameters(tiny_model("bert", **given)) == count * 5 * 40


def test_linformer_refuses_what_it_cannot_read() -> None:
    part = build("linformer(k=5)", length=10)
    with pytest.raises(InputError, match="12 keys are more than the 10 places"):
        part(*draw(12), Places.span(0, 12, CPU))
    at = Places.span(0, 9, CPU)
    with pytest.raises(InputError, match="no mask can hide single pairs"):
        part(*draw(9), at, causal(at))
    for model, said in (
        ("gpt2", "'linformer' attention cannot stand in the decoder"),
        ("unilm", "must not see what follows"),
    ):
        with pytest.raises(InputError, match=said):
            tiny_model(model, attention="linformer(k=5)")
    with pytest.raises(InputError, match="an order of reading hides"):
        tiny_model("xlnet", attention="linformer(k=5)", position="rotary")
    with pytest.raises(InputError, match="position='alibi' adds to pairs of tokens"):
        tiny_model("bert", attention="linformer(k=5)", position="alibi")


# -- memory-compressed attention ---------------------------------------------------------------------------------------


def test_a_factor_of_one_with_the_identity_is_full_attention() -> None:
    part = build("memory_compressed(factor=1, kernel=1)", "decoder")
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(torch.eye(K).expand(H, K, K))
    q, k, v = draw(9)
    for is_causal in (False, True):
        at = Places.span(0, 9, CPU, causal=is_causal)
        torch.testing.assert_close(part.plain(q, k, v, at), Soft(sizes()).plain(q, k, v, at), atol=1e-9, rtol=0)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("factor", "kernel"), [(3, 3), (2, 5), (3, 4)])
def test_compression_by_a_loop(factor: int, kernel: int, is_causal: bool) -> None:
    """A slot is the convolution of the `kernel` tokens that end where its block ends; what is not there counts as 0."""
    part, length = build(f"memory_compressed(factor={factor}, kernel={kernel})", "decoder"), 11
    assert isinstance(part, MemoryCompressed)
    q, k, v = draw(length)
    found = part(q, k, v, Places.span(0, length, CPU, causal=is_causal))
    for b in range(B):
        for h in range(H):
            for t in range(length):
                slots, values = [part.first_key[h, 0]], [part.first_value[h, 0]]
                for end in range(factor - 1, length + factor - 1, factor):  # of each block; the last may be incomplete
                    if is_causal and end > t:
                        continue
                    tokens = range(end - kernel + 1, end + 1)
                    for weight, x, into in ((part.of_keys, k, slots), (part.of_values, v, values)):
                        rows = [x[b, h, s] if 0 <= s < length else torch.zeros(K).double() for s in tokens]
                        into.append(torch.cat(rows) @ weight[h])
                e = [math.exp((q[b, h, t] @ slot).item() / math.sqrt(K)) for slot in slots]
                expected = sum(weight / sum(e) * value for weight, value in zip(e, values, strict=True))
                torch.testing.assert_close(found[b, h, t], expected, atol=1e-9, rtol=0)


def test_the_memory_has_a_third_of_the_tokens_and_one() -> None:
    part = build("memory_compressed", "decoder")
    for length in (1, 2, 3, 11, 12):
        *_, (_, k, _, _) = part.parts(*draw(length), Places.span(0, length, CPU, causal=True), None)
        assert k.size(2) == 1 + length // 3


def test_documents_of_one_row_stay_apart() -> None:
    """Each begins at place 0, wherever it stands, and no slot reads two of them."""
    model = (
        tiny_model("gpt2", layers=2, attention="memory_compressed(factor=2, kernel=3)", vocab_size=30).double().eval()
    )
    one, two, three = (torch.randint(4, 30, (1, n), generator=torch.Generator().manual_seed(n)) for n in (5, 1, 6))
    documents = torch.tensor([[0] * 5 + [1] + [2] * 6])
    together = model.encode(torch.cat((one, two, three), dim=1), documents=documents)
    alone = torch.cat([model.encode(each) for each in (one, two, three)], dim=1)
    torch.testing.assert_close(together, alone, atol=1e-9, rtol=0)


def test_what_is_recorded_of_a_slot_stands_on_its_tokens() -> None:
    part = build("memory_compressed(factor=3)")
    weights = part.plain(*draw(7), Places.span(0, 7, CPU))[1]
    assert torch.equal(weights[..., 0], weights[..., 2])
    assert not torch.equal(weights[..., 0], weights[..., 3])
    sums = weights.sum(dim=-1)
    assert (sums < 1).all()  # the rest is that of the slot in front
    assert (sums > 0).all()


@pytest.mark.parametrize(("spec", "said"), [
    ("linformer(k=0)", "k=0"), ("linformer(share='all')", "share='all'"), ("memory_compressed(factor=0)", "factor=0"),
    ("memory_compressed(factor=3, kernel=2)", "kernel=2 would leave out tokens"),
])  # fmt: skip
def test_what_makes_no_memory_is_refused(spec: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build(spec)


def test_written_one_by_one_with_prompts_of_other_lengths() -> None:
    torch.manual_seed(0)
    attend = MultiHead(sizes(), attention="memory_compressed(factor=3, kernel=4)", use="decoder").double()
    x, seen, starts = torch.randn(2, 20, H * K, dtype=torch.float64), KeyValues(), torch.tensor([[0], [4]])
    real = torch.arange(20) >= starts
    at = Places.counted(real, 20, causal=True)
    whole = attend(x, at, mask=causal(at) & real[:, None, None])
    for start, stop in [(0, 7), *((t, t + 1) for t in range(7, 20))]:
        its = real[:, :stop]
        here = Places.counted(its, stop - start, causal=True)
        step = attend(x[:, start:stop], here, mask=causal(here) & its[:, None, None], seen=seen)
        torch.testing.assert_close(step[its[:, start:]], whole[:, start:stop][its[:, start:]], atol=1e-9, rtol=0)
