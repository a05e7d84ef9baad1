"""The same weights give the same numbers as Hugging Face's Marian and FSMT: states, logits and gradients."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from kit import draw
from qkv.attention import padding
from qkv.folder import fill
from qkv.models import Transformer, TransformerConfig

transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")

V, D, F, H, N = 41, 32, 48, 4, 2
SIZES = {"d_model": D, "encoder_layers": N, "decoder_layers": N, "max_position_embeddings": 64}
SIZES |= {"encoder_attention_heads": H, "decoder_attention_heads": H, "encoder_ffn_dim": F, "decoder_ffn_dim": F}
SIZES |= {"activation_function": "relu", "scale_embedding": True, "dropout": 0.0, "attention_dropout": 0.0}

# Applied from top to bottom to their names; the result must be ours, each used once.
LAYERS = [
    (r"^model\.", ""),
    (r"\.layers\.", ".blocks."),
    (r"\.self_attn_layer_norm\.", ".attention_residual.norm."),
    (r"\.encoder_attn_layer_norm\.", ".memory_residual.norm."),
    (r"\.final_layer_norm\.", ".feed_forward_residual.norm."),
    (r"\.self_attn\.", ".attention."),
    (r"\.encoder_attn\.", ".memory_attention."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".output."),
    (r"\.fc1\.", ".feed_forward.expand."),
    (r"\.fc2\.", ".feed_forward.contract."),
]
MARIAN = [*LAYERS, (r"^shared\.", "source."), (r"^final_logits_bias$", "vocabulary.bias")]
FSMT = [
    *LAYERS,
    (r"^encoder\.embed_tokens\.", "source."),
    (r"^decoder\.embed_tokens\.", "target."),
    (r"^decoder\.output_projection\.", "vocabulary."),
]


@dataclass(frozen=True)
class Family:
    """Another library's model, the settings that make ours the same function, and the names between the two."""

    build: Callable[[int], nn.Module]
    config: TransformerConfig
    names: list[tuple[str, str]]
    skipped: str  # copies of tied tables, and fixed positions
    pad: int = 0


def marian(pad: int) -> nn.Module:
    config = transformers.MarianConfig(vocab_size=V, pad_token_id=pad, attn_implementation="eager", **SIZES)
    return transformers.MarianMTModel(config)


def fsmt(pad: int) -> nn.Module:
    config = transformers.FSMTConfig(
        langs=["en", "de"], src_vocab_size=V, tgt_vocab_size=V, pad_token_id=pad, tie_word_embeddings=False, **SIZES
    )
    return transformers.FSMTForConditionalGeneration(config)


def ours(position: str, **others: object) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=V, d_model=D, d_ff=F, n_heads=H, encoder_layers=N, decoder_layers=N, dropout=0.0, max_length=64,
        attention_bias=True, position=position, **others,
    )  # fmt: skip


MARIAN_SETTINGS = ours("sinusoidal(layout='halves')", output_bias=True)
FAMILIES = {
    "marian": Family(marian, MARIAN_SETTINGS, MARIAN, "embed_positions|embed_tokens|lm_head"),
    # FSMT counts places from padding_idx + 1.
    "fsmt": Family(fsmt, ours("sinusoidal(layout='fairseq', offset=1)", tied="none"), FSMT, "embed_positions"),
    "fsmt, pad 1": Family(
        fsmt, ours("sinusoidal(layout='fairseq', offset=2)", tied="none"), FSMT, "embed_positions", pad=1
    ),
}


def rename(tensors: dict[str, Tensor], family: Family) -> dict[str, Tensor]:
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if re.search(family.skipped, name):
            continue
        for pattern, with_this in family.names:
            name = re.sub(pattern, with_this, name)
        assert name not in renamed
        renamed[name] = tensor
    return renamed


def randomise(model: nn.Module) -> None:
    """Weights large enough for attention to be far from uniform; the logits' bias too, though it is no parameter."""
    torch.manual_seed(0)
    weights = {name: p for name, p in model.named_parameters() if "embed_positions" not in name}
    weights |= {name: b for name, b in model.named_buffers() if name == "final_logits_bias"}
    with torch.no_grad():
        for name, p in weights.items():
            p.normal_(1.0 if name.endswith("layer_norm.weight") else 0.0, 0.3)


def weights_of(theirs: nn.Module, family: Family) -> dict[str, Tensor]:
    tensors = {name: tensor.detach().clone() for name, tensor in theirs.state_dict().items()}
    renamed = rename(tensors, family)
    if "vocabulary.bias" in renamed:
        renamed["vocabulary.bias"] = renamed["vocabulary.bias"][0]  # theirs is (1, V)
    return renamed


def twins(name: str, dtype: torch.dtype = torch.float32) -> tuple[Transformer, nn.Module, Family]:
    family = FAMILIES[name]
    theirs = family.build(family.pad).eval()
    randomise(theirs)
    model = Transformer(family.config).eval()
    fill(model, weights_of(theirs, family), Path(name))
    return model.to(dtype), theirs.to(dtype), family


def batch(family: Family) -> tuple[Tensor, Tensor]:
    """Sentences of unequal length, padded with 0; without padding if theirs pads with another id than ours."""
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(4, V, (3, 9), generator=generator)
    tgt = torch.randint(4, V, (3, 7), generator=generator)
    if family.pad == 0:
        src[1, 6:], src[2, 2:], tgt[0, 5:], tgt[2, 3:] = 0, 0, 0, 0
    return src, tgt


def run_theirs(model: nn.Module, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
    out = model(input_ids=src, attention_mask=(src != 0).long(), decoder_input_ids=tgt, use_cache=False)
    return out.encoder_last_hidden_state, out.logits


def run_ours(model: Transformer, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
    return model.encode(src)[0], model(src, tgt).logits


# FSMT itself does not run in float64: the value of its causal mask overflows.
@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [(name, torch.float32, 1e-5) for name in FAMILIES] + [("marian", torch.float64, 1e-10)],
)
def test_states_and_logits_are_theirs(name: str, dtype: torch.dtype, tolerance: float) -> None:
    model, theirs, family = twins(name, dtype)
    src, tgt = batch(family)
    with torch.no_grad():
        (memory, logits), (their_memory, their_logits) = run_ours(model, src, tgt), run_theirs(theirs, src, tgt)
    real_src, real_tgt = src != 0, tgt != 0
    assert logits[real_tgt].std() > 0.5  # there is something to compare
    torch.testing.assert_close(memory[real_src], their_memory[real_src], atol=tolerance, rtol=0)
    torch.testing.assert_close(logits[real_tgt], their_logits[real_tgt], atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_theirs(name: str) -> None:
    model, theirs, family = twins(name)
    src, tgt = batch(family)
    real = (tgt != 0).float()[:, :, None]
    along = draw(*tgt.shape, V, seed=2) * real
    (run_ours(model, src, tgt)[1] * along).sum().backward()
    (run_theirs(theirs, src, tgt)[1] * along).sum().backward()
    gradients = rename({n: p.grad for n, p in theirs.named_parameters() if p.grad is not None}, family)
    for own, parameter in model.named_parameters():
        if own == "vocabulary.bias":  # a buffer there
            continue
        assert parameter.grad is not None
        difference = (parameter.grad - gradients[own]).abs().max()
        # A key's bias has no gradient but rounding: softmax does not see it.
        scale = 1.0 if own.endswith("key.bias") else gradients[own].abs().max()
        assert difference <= 1e-4 * scale, own


@pytest.mark.parametrize("name", ["marian", "fsmt"])
def test_one_flipped_sign_is_seen(name: str) -> None:
    """The guard of the comparison itself: no weight could be wrong without a difference far over the tolerance."""
    model, theirs, family = twins(name)
    src, tgt = batch(family)
    with torch.no_grad():
        expected = run_theirs(theirs, src, tgt)[1][tgt != 0]
        for own, parameter in model.named_parameters():
            parameter.neg_()
            difference = (run_ours(model, src, tgt)[1][tgt != 0] - expected).abs().max()
            parameter.neg_()
            if not own.endswith("key.bias"):
                assert difference > 1e-3, own


def test_the_masks_are_theirs() -> None:
    """Without our padding mask, the padded rows would differ: the comparison does look at them."""
    model, theirs, family = twins("marian")
    src, tgt = batch(family)
    unpadded = src.masked_fill(src == 0, 4)
    assert not padding(src, 0).all()
    with torch.no_grad():
        expected, found = run_theirs(theirs, src, tgt)[1], run_ours(model, unpadded, tgt)[1]
    assert (expected - found)[2, 0].abs().max() > 1e-3
