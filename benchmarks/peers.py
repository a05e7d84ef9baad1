"""The other libraries' models that benchmarks compare with: the same sizes, and for Marian the same weights.

Not here: fairseq 0.12.2, the last one, cannot be imported on Python 3.11 and later, since its settings have mutable
defaults; Marian's own program (pymarian) reads text and makes its own batches, so that it cannot train on ours.
"""

import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.convert.families.marian import NAMES, replaced
from qkv.folder import fill
from qkv.models import BertConfig, GPT2Config, Transformer, TransformerConfig, XLNetConfig
from qkv.positions import Places, Sinusoidal
from qkv.text.tokenizer import BOS, EOS, PAD

TABLES = "embed_positions|embed_tokens|lm_head|shared|final_logits_bias"  # fixed positions, and one table by four names


class Plain(nn.Module):
    """The model of a tutorial: torch.nn.Transformer between an embedding and the same table as projection."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(c.vocab_size, c.d_model, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=c.d_model**-0.5)
        self.position, self.dropout = Sinusoidal(c), nn.Dropout(c.dropout)
        with warnings.catch_warnings(action="ignore"):  # that pre-norm has no fast path for inference
            self.body = nn.Transformer(
                c.d_model, c.n_heads, c.encoder_layers, c.decoder_layers, c.d_ff, c.dropout,
                batch_first=True, norm_first=c.norm == "pre",
            )  # fmt: skip

    def embed(self, ids: Tensor) -> Tensor:
        x = self.table(ids) * math.sqrt(self.table.embedding_dim)
        placed: Tensor = self.dropout(self.position.embed(x, Places.span(0, ids.size(1), ids.device)))
        return placed

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        ahead = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)
        hidden: Tensor = self.body(
            self.embed(src), self.embed(tgt), tgt_mask=ahead, tgt_is_causal=True, src_key_padding_mask=src == PAD,
            memory_key_padding_mask=src == PAD, tgt_key_padding_mask=tgt == PAD,
        )  # fmt: skip
        return hidden @ self.table.weight.T


def marian(c: TransformerConfig) -> Any:
    """Hugging Face's MarianMTModel with the sizes of one of ours."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=c.vocab_size, d_model=c.d_model, encoder_layers=c.encoder_layers, decoder_layers=c.decoder_layers,
        encoder_attention_heads=c.n_heads, decoder_attention_heads=c.n_heads, encoder_ffn_dim=c.d_ff,
        decoder_ffn_dim=c.d_ff, activation_function="relu", scale_embedding=True, dropout=c.dropout,
        attention_dropout=0.0, max_position_embeddings=c.max_length, pad_token_id=PAD, bos_token_id=BOS,
        decoder_start_token_id=BOS, eos_token_id=EOS, forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(config)


def copied(theirs: Any, c: TransformerConfig) -> Transformer:
    """Our model with Marian's weights; `c` must have Marian's settings: halves, biases, everything tied."""
    state = {name: tensor.detach().clone() for name, tensor in theirs.state_dict().items()}
    named = {name: tensor for name, tensor in state.items() if not re.search(TABLES, name)}
    back = [(other, own) for own, other in NAMES]
    tensors = {replaced(name.removeprefix("model."), back): tensor for name, tensor in named.items()}
    tensors |= {"source.weight": state["model.shared.weight"], "vocabulary.bias": state["final_logits_bias"][0]}
    model = Transformer(c)
    fill(model, tensors, Path("marian"))
    return model


# -- training: what gives logits (B, T, V) for src (B, S) and tgt (B, T) ----------------------------------------------

Logits = Callable[[Tensor, Tensor], Tensor]


def plain_peer(c: TransformerConfig) -> tuple[nn.Module, Logits]:
    model = Plain(c)
    return model, model


def marian_peer(c: TransformerConfig) -> tuple[nn.Module, Logits]:
    model = marian(c)
    return model, lambda src, tgt: model(src, src != PAD, tgt).logits


def x_transformers_peer(c: TransformerConfig) -> tuple[nn.Module, Logits]:
    """Its encoder and decoder with torch's fused attention; one table for all three, as ours."""
    from x_transformers import Decoder, Encoder, TransformerWrapper  # type: ignore[import-not-found]
    from x_transformers.x_transformers import TokenEmbedding  # type: ignore[import-not-found]

    sizes: dict[str, Any] = {"dim": c.d_model, "heads": c.n_heads, "attn_dim_head": c.head_width, "attn_flash": True}
    sizes |= {"ff_mult": c.d_ff / c.d_model, "ff_custom_activation": nn.ReLU(), "pre_norm": c.norm == "pre"}
    sizes |= {"ff_sublayer_dropout": c.dropout, "attn_sublayer_dropout": c.dropout}
    outside = {"num_tokens": c.vocab_size, "max_seq_len": c.max_length, "emb_dropout": c.dropout}
    outside |= {"scaled_sinu_pos_emb": True, "token_emb": TokenEmbedding(c.d_model, c.vocab_size)}
    encoder = TransformerWrapper(
        attn_layers=Encoder(depth=c.encoder_layers, **sizes), return_only_embed=True, **outside
    )
    decoder = TransformerWrapper(
        attn_layers=Decoder(depth=c.decoder_layers, cross_attend=True, **sizes), tie_embedding=True, **outside
    )

    def logits(src: Tensor, tgt: Tensor) -> Tensor:
        memory = encoder(src, mask=src != PAD, return_embeddings=True)
        found: Tensor = decoder(tgt, context=memory, context_mask=src != PAD)
        return found

    return nn.ModuleList((encoder, decoder)), logits


def eole_peer(c: TransformerConfig) -> tuple[nn.Module, Logits]:
    """OpenNMT-py's heir, its model without its loop: one table for all three, fused attention, no attention biases."""
    warnings.filterwarnings("ignore", module="eole")  # that it has no kernels for GPUs here
    from eole.config.models import TransformerModelConfig  # type: ignore[import-not-found]
    from eole.config.training import TrainingConfig  # type: ignore[import-not-found]
    from eole.models.model import EncoderDecoderModel  # type: ignore[import-not-found]

    sizes = TransformerModelConfig(
        hidden_size=c.d_model, word_vec_size=c.d_model, heads=c.n_heads, transformer_ff=c.d_ff, layer_norm="standard",
        mlp_activation_fn="relu", add_ffnbias=True, position_encoding_type="SinusoidalInterleaved",
        share_embeddings=True, share_decoder_embeddings=True, generator_bias=False,
        encoder={"layers": c.encoder_layers}, decoder={"layers": c.decoder_layers},
    )  # fmt: skip
    settings = TrainingConfig(dropout=[c.dropout], attention_dropout=[0.0], param_init_method="xavier_uniform")
    words = {"<pad>": PAD} | {str(number): number for number in range(1, c.vocab_size)}
    vocabularies = {"specials": {"pad_token": "<pad>"}, "src": words, "tgt": words}
    model = EncoderDecoderModel.build(sizes, vocabularies, settings)
    model.init_weights(settings)

    def logits(src: Tensor, tgt: Tensor) -> Tensor:
        longer = nn.functional.pad(tgt, (0, 1))  # it drops the last
        found: Tensor = model.generator(model(src, longer, (src != PAD).sum(1)).dec_out)
        return found

    return model, logits


# name: the package that it needs, and what makes it
PEERS: dict[str, tuple[str, Callable[[TransformerConfig], tuple[nn.Module, Logits]]]] = {
    "torch": ("torch", plain_peer),
    "marian": ("transformers", marian_peer),
    "x-transformers": ("x_transformers", x_transformers_peer),
    "eole": ("eole", eole_peer),
}


# -- training a GPT-2: what gives logits (B, T, V) for ids (B, T) ------------------------------------------------------


class PlainGPT2(nn.Module):
    """A GPT-2 written by hand on torch's own layers, with its fused causal attention."""

    def __init__(self, c: GPT2Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(c.vocab_size, c.d_model)
        self.places = nn.Embedding(c.max_length, c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(PlainBlock(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.d_model)
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.output.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.dropout(self.tokens(ids) + self.places(torch.arange(ids.size(1))))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(self.norm(x))
        return logits


class PlainBlock(nn.Module):
    """Pre-norm attention and feed-forward, each added to what it read."""

    def __init__(self, c: GPT2Config) -> None:
        super().__init__()
        self.n_heads, self.dropout = c.n_heads, c.dropout
        self.norms = nn.ModuleList(nn.LayerNorm(c.d_model) for _ in range(2))
        self.qkv, self.output = nn.Linear(c.d_model, 3 * c.d_model), nn.Linear(c.d_model, c.d_model)
        self.expand, self.contract = nn.Linear(c.d_model, 4 * c.d_model), nn.Linear(4 * c.d_model, c.d_model)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(B, T, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D)
        x = x + F.dropout(self.output(mixed), self.dropout, self.training)
        inner = F.gelu(self.expand(self.norms[1](x)), approximate="tanh")
        return x + F.dropout(self.contract(inner), self.dropout, self.training)


def plain_gpt2(c: GPT2Config) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    model = PlainGPT2(c)
    return model, model


def transformers_gpt2(c: GPT2Config) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """As it comes, but for the dropout of the attention weights, which the others do not have."""
    import transformers

    config = transformers.GPT2Config(
        vocab_size=c.vocab_size, n_positions=c.max_length, n_embd=c.d_model, n_layer=c.layers, n_head=c.n_heads,
        embd_pdrop=c.dropout, resid_pdrop=c.dropout, attn_pdrop=0.0, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    return model, lambda ids: model(ids).logits


GPT2_PEERS: dict[str, Callable[[GPT2Config], tuple[nn.Module, Callable[[Tensor], Tensor]]]] = {
    "transformers": transformers_gpt2,
    "plain loop": plain_gpt2,
}


# -- training a BERT ---------------------------------------------------------------------------------------------------


def transformers_xlnet(c: XLNetConfig) -> Any:
    """Their language model as it comes; one dropout is for all places, and ours has none at the weights."""
    import transformers

    config = transformers.XLNetConfig(
        vocab_size=c.vocab_size, d_model=c.d_model, n_layer=c.layers, n_head=c.n_heads, d_inner=c.inner_width,
        ff_activation="gelu_new", dropout=c.dropout, pad_token_id=PAD,
    )  # fmt: skip
    return transformers.XLNetLMHeadModel(config)


def transformers_bert(c: BertConfig, kind: str) -> Any:
    """One of their classes as it comes, but for the dropout of the attention weights, which ours does not have."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=c.vocab_size, hidden_size=c.d_model, num_hidden_layers=c.layers, num_attention_heads=c.n_heads,
        intermediate_size=c.inner_width, max_position_embeddings=c.max_length, hidden_dropout_prob=c.dropout,
        attention_probs_dropout_prob=0.0, attn_implementation="sdpa", pad_token_id=PAD,
    )  # fmt: skip
    return getattr(transformers, kind)(config)
