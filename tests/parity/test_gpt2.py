"""GPT-2 against transformers' GPT2LMHeadModel with the same random weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import GPT2Config as TheirConfig
from transformers import GPT2LMHeadModel

from kit import padded, refused
from qkv.attention import recording
from qkv.convert.families.gpt import GPT2 as FAMILY
from qkv.convert.family import our_settings, our_weights, plain
from qkv.errors import InputError
from qkv.folder import fill
from qkv.models import GPT2, GPT2Config, count_parameters
from qkv.text.tokenizer import PAD

V, B, T, LAYERS = 99, 3, 12, 3
SIZES = {"n_embd": 64, "n_layer": LAYERS, "n_head": 4, "vocab_size": V, "n_positions": 128, "attn_pdrop": 0.0,
         "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_implementation": "eager"}  # fmt: skip
LENGTHS = [T, 100]  # up to 64 keys by the plain steps, beyond by the fused kernel


def twins(dtype: torch.dtype = torch.float32, **settings: Any) -> tuple[GPT2LMHeadModel, GPT2]:
    """Theirs with random weights, biases and norms too, and ours with the same."""
    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(TheirConfig(**{**SIZES, **settings})).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.normal_(1.0 if "ln_" in name and name.endswith("weight") else 0.0, 0.1)
    ours = GPT2(GPT2Config(**our_settings(FAMILY, theirs.config.to_dict(), "theirs"), vocab_size=V)).eval()
    fill(ours, renamed(theirs.state_dict()), Path("theirs"))
    return theirs.to(dtype), ours.to(dtype)


def renamed(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their weights under our names; ids are the same."""
    named = {plain(name, FAMILY.prefix): value for name, value in theirs.items()}
    return our_weights(FAMILY, named, None, range(V), 0, "")


def draw(length: int = T, rows: int = B) -> Tensor:
    return padded([length] * rows, V)


def difference(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).detach().abs().max())


def hidden_states(model: GPT2, ids: Tensor) -> list[Tensor]:
    """What goes into each block, and what comes out of the last norm."""
    kept: list[Tensor] = []

    def keep(_: Any, given: tuple[Any, ...], __: Tensor) -> None:
        kept.append(given[0])

    handles = [block.register_forward_hook(keep) for block in model.decoder.blocks]
    kept.append(model.encode(ids))
    for handle in handles:
        handle.remove()
    return kept


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_every_hidden_state_and_the_logits(dtype: torch.dtype, atol: float, length: int) -> None:
    (theirs, ours), ids = twins(dtype), draw(length)
    found, expected = hidden_states(ours, ids), theirs(ids, output_hidden_states=True)
    assert len(found) == len(expected.hidden_states) == LAYERS + 1
    for mine, other in zip(found, expected.hidden_states, strict=True):
        assert difference(mine, other) <= atol
    assert difference(ours(ids).logits, expected.logits) <= atol


def test_every_map_of_attention() -> None:
    (theirs, ours), ids = twins(), draw()
    expected = theirs(ids, output_attentions=True).attentions
    with recording(ours) as maps:
        ours(ids)
    assert len(maps) == len(expected) == LAYERS
    for layer, weights in enumerate(expected):
        assert difference(maps[f"decoder.blocks.{layer}.attention"], weights) <= 1e-5


@pytest.mark.parametrize("is_training", [False, True])  # without dropout both compute the same, in other forms
@pytest.mark.parametrize("length", LENGTHS)
def test_the_loss_and_every_gradient(length: int, is_training: bool) -> None:
    (theirs, ours), ids = twins(), draw(length)
    ours.train(is_training)
    expected = theirs(ids, labels=ids).loss
    found = F.cross_entropy(ours(ids).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert difference(found, expected) <= 1e-5
    expected.backward()
    found.backward()
    gradients = renamed({name: p.grad for name, p in theirs.named_parameters() if p.grad is not None})
    assert gradients.keys() == {name for name, _ in ours.named_parameters()}
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None
        scale = max(1.0, float(gradients[name].abs().max()))
        assert difference(parameter.grad, gradients[name]) <= 1e-5 * scale, name


def test_cached_steps() -> None:
    (theirs, ours), ids = twins(), draw()
    expected = theirs(ids[:, :4], use_cache=True)
    tokens, state = ours.start(ids[:, :4])
    assert torch.equal(tokens, ids[:, 3])
    assert difference(ours.step(tokens, state), expected.logits[:, -1]) <= 1e-5
    for t in range(4, T):
        expected = theirs(ids[:, t : t + 1], past_key_values=expected.past_key_values, use_cache=True)
        assert difference(ours.step(ids[:, t], state), expected.logits[:, -1]) <= 1e-5


def continued(model: GPT2, prompts: Tensor, count: int) -> Tensor:
    tokens, state = model.start(prompts)
    written = []
    for _ in range(count):
        tokens = model.step(tokens, state).argmax(dim=-1)
        written.append(tokens)
    return torch.stack(written, dim=1)


def test_a_prompt_padded_on_the_left_goes_on_as_it_does_alone() -> None:
    (theirs, ours), ids = twins(), draw()
    real = torch.arange(T) >= torch.tensor([0, 7, T - 1])[:, None]
    together = continued(ours, ids.masked_fill(~real, PAD), 8)
    for row in range(B):
        alone = ids[row : row + 1][real[row : row + 1]][None]
        assert torch.equal(continued(ours, alone, 8)[0], together[row])
        limits = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "pad_token_id": PAD}
        expected = theirs.generate(alone, attention_mask=torch.ones_like(alone), **limits)[0, alone.size(1) :]
        assert torch.equal(together[row], expected)


@pytest.mark.parametrize("name", ["tokens", "decoder.blocks.1.attention.key", "decoder.blocks.2.feed_forward.contract"])
def test_one_weight_with_another_sign_is_found(name: str) -> None:
    """The comparison itself is tested: it must see the smallest thing that can be wrong."""
    (theirs, ours), ids = twins(), draw()
    with torch.no_grad():
        weight = ours.get_parameter(f"{name}.weight")
        weight[int(ids[0, 0]) if name == "tokens" else 0, 0] *= -1
    assert difference(ours.encode(ids), theirs.transformer(ids).last_hidden_state) > 1e-5


COUNTS = {"base": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200}


@pytest.mark.parametrize("preset", COUNTS)
def test_the_sizes_of_the_paper(preset: str) -> None:
    """As many parameters as transformers' model of that size has; the paper's own count of the first two was wrong."""
    with torch.device("meta"):
        c = GPT2Config(**GPT2.presets[preset])
        theirs = GPT2LMHeadModel(TheirConfig(n_embd=c.d_model, n_layer=c.layers, n_head=c.n_heads))
        assert count_parameters(GPT2(c)) == theirs.num_parameters() == COUNTS[preset]


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_pytorch_tanh"])
def test_other_settings_of_theirs(activation: str) -> None:
    theirs, ours = twins(activation_function=activation, n_inner=40, layer_norm_epsilon=1e-3)
    assert ours.config.d_ff == 40
    assert difference(ours(draw()).logits, theirs(draw()).logits) <= 1e-5


@refused(
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"activation_function": "mish"}, "'mish'"),
        ({"n_head": 5}, "not divisible by n_heads=5"),
    ],
)
def test_what_is_no_gpt2_is_refused(wrong: dict[str, Any]) -> None:
    GPT2Config(**our_settings(FAMILY, wrong, "config.json"))


def test_a_weight_of_another_family_is_refused() -> None:
    with pytest.raises(InputError, match=r"encoder\.layer\.0"):
        renamed({"encoder.layer.0.output.dense.weight": torch.zeros(2, 2)})


def test_old_files_carry_a_causal_mask_too() -> None:
    theirs, _ = twins()
    more = {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8), "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}
    assert renamed({**theirs.state_dict(), **more}).keys() == renamed(theirs.state_dict()).keys()
