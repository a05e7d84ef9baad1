"""BigBird's attention beside transformers' block-sparse one, with the same q, k and v; and the model around it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BigBirdConfig, BigBirdForMaskedLM
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

from kit import tiny_model, write_words
from qkv import folder
from qkv.attention import build_attention
from qkv.convert.families.bert import BIG_BIRD
from qkv.convert.hugging_face import family_of, their_settings
from qkv.models import Bert, TransformerConfig
from qkv.positions import Places

B, H, K, BLOCK, V = 2, 4, 8, 16, 60
SIZES = TransformerConfig(d_model=H * K, n_heads=H)


def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, real: torch.Tensor, random: int) -> torch.Tensor:
    length = q.size(2)
    c = BigBirdConfig(hidden_size=H * K, num_attention_heads=H, block_size=BLOCK, num_random_blocks=random)
    part = BigBirdBlockSparseAttention(c, seed=0).eval()
    blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(real.float(), BLOCK)
    context, _ = part.bigbird_block_sparse_attention(
        q, k, v, band, from_mask, to_mask, blocked, blocked, H, random, K, BLOCK, BLOCK, B, length, length, seed=0,
        plan_from_length=None, plan_num_rand_blocks=None,
    )  # fmt: skip
    return context.transpose(1, 2)  # (B, H, T, K)


@pytest.mark.parametrize("random", [1, 3])
@pytest.mark.parametrize("is_padded", [False, True])
def test_their_plan_gives_their_numbers_and_gradients(random: int, is_padded: bool) -> None:
    """Outside training all their drawn blocks are the first, which counts 1 + random times. With the sign of one
    number changed, the two differ."""
    length, generator = 512, torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, length, K, generator=generator).requires_grad_() for _ in range(3))
    real = torch.arange(length) < torch.tensor([[length], [length - 70 if is_padded else length]])
    at, mask = Places.span(0, length, torch.device("cpu")), real[:, None, None]
    part = build_attention(f"bigbird(block={BLOCK}, random={random}, plan='transformers')", SIZES, "encoder")
    expected = theirs(q, k, v, real, random)
    keep = real[:, None, :, None].float()  # what they say at padding is 0, and nobody reads it
    along = torch.randn(expected.shape, generator=generator) * keep
    gradients = torch.autograd.grad((expected * along).sum(), (q, k, v))
    for found in (part.fused(q, k, v, at, mask), part.plain(q, k, v, at, mask)[0]):
        torch.testing.assert_close(found * keep, expected * keep, atol=1e-5, rtol=0)
        for ours, others in zip(torch.autograd.grad((found * along).sum(), (q, k, v)), gradients, strict=True):
            torch.testing.assert_close(ours, others, atol=1e-4, rtol=0)
    with torch.no_grad():
        q[0, 0, 100] *= -1
        assert (part.fused(q, k, v, at, mask) - expected).abs().max() > 1e-2
    drawn = build_attention(f"bigbird(block={BLOCK}, random={random})", SIZES, "encoder")
    assert (drawn.fused(q, k, v, at, mask) - expected).abs().max() > 1e-2


@torch.no_grad()
def test_a_model_that_reads_a_thousand_tokens(tmp_path: Path) -> None:
    """A length that is no multiple of the block, and a padded row; with blocks that are drawn, all is different."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    length = {"max_position_embeddings": 1024, "block_size": BLOCK}
    c = BigBirdConfig(vocab_size=V, **sizes, **length, pad_token_id=1, initializer_range=0.2)
    theirs = BigBirdForMaskedLM(c).eval()
    theirs.save_pretrained(tmp_path)
    write_words(tmp_path, ("[unused]", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), V)
    ours = folder.load(tmp_path).model
    assert ours.config.attention == f"bigbird(block={BLOCK}, random=3, plan='transformers')"
    ids = torch.randint(6, V, (2, 1000))
    real = torch.arange(1000) < torch.tensor([[1000], [777]])
    expected = theirs(input_ids=torch.where(real, ids, 1), attention_mask=real.long()).logits[real]
    backbone = ours.backbone
    known = torch.arange(6, V)  # our ids of words are theirs
    given = torch.where(real, ids, 0)
    assert (backbone(given).logits[real][:, known] - expected[:, known]).abs().max() <= 1e-5
    drawn = Bert(replace(backbone.config, attention=f"bigbird(block={BLOCK})")).eval()
    drawn.load_state_dict(backbone.state_dict())
    assert (drawn(given).logits[real][:, known] - expected[:, known]).abs().max() > 1e-2


def test_an_export_reads_options_without_a_key() -> None:
    attention = "bigbird(16, random=2, plan='transformers')"
    ours = tiny_model("bert", attention=attention, activation="gelu_tanh")
    assert family_of(ours) is BIG_BIRD
    theirs = their_settings(ours.config, BIG_BIRD)
    assert [theirs[key] for key in ("attention_type", "block_size", "num_random_blocks")] == ["block_sparse", 16, 2]
