"""Our models as a CTranslate2 folder: model.bin, config.json, the vocabulary, and our tokenizer.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.convert.plain import need, output_bias, place_table
from qkv.errors import InputError, nearest
from qkv.layers import GatedFeedForward, Stack
from qkv.models import GPT2, Bert, Headed, Model, Transformer
from qkv.positions import Rotary
from qkv.text.tokenizer import BOS, EOS, UNK, Tokenizer

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH"}
QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")


def write_ctranslate2(
    out: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any], quantization: str = ""
) -> None:
    """Into an empty folder, through CTranslate2's own description of a Transformer, an encoder or a writer."""
    if quantization and quantization not in QUANTIZATIONS:
        raise InputError(f"unknown quantization {quantization!r}; {nearest(quantization, QUANTIZATIONS)}")
    specs = need("ctranslate2.specs", "qkv[ctranslate2]")
    plain: Any = model.backbone if isinstance(model, Headed) else model
    make = next(make for kind, make in SPECS.items() if isinstance(plain, kind))
    how = {"pre_norm": plain.config.norm == "pre",
           "activation": getattr(specs.Activation, ACTIVATIONS[plain.config.activation])}  # fmt: skip
    words = tokenizer.vocabulary()
    spec = make(specs, plain, words, how)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words[UNK], words[BOS], words[EOS]
    spec.config.layer_norm_epsilon = plain.config.eps
    spec.validate()
    spec.optimize(quantization or None)
    spec.save(str(out))
    tokenizer.save(out / "tokenizer.json")


def translator(specs: Any, model: Transformer, words: list[str], how: dict[str, Any]) -> Any:
    c = model.config
    spec = specs.TransformerSpec.from_config((c.encoder_layers, c.decoder_layers), c.n_heads, **how)
    fill_stack(spec.encoder, model.encoder, c.max_length)
    fill_stack(spec.decoder, model.decoder, c.max_length)
    spec.encoder.embeddings[0].weight = array(model.source.weight)
    spec.decoder.embeddings.weight = array(model.target.weight)
    spec.decoder.projection.weight = array(model.vocabulary.weight)
    spec.decoder.projection.bias = array(output_bias(model))
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.decoder_start_token, spec.config.add_source_eos = words[BOS], c.source_end
    return spec


def reader(specs: Any, model: Bert, words: list[str], how: dict[str, Any]) -> Any:
    """The states of each token. The vector of a segment that is the only one is added to those of the tokens."""
    c = model.config
    tables: list[Tensor] = [model.tokens.weight]
    if model.tokens.segments is not None:
        tables = [tables[0] + model.tokens.segments[0]] if c.segments == 1 else [*tables, model.tokens.segments]
    encoder = specs.TransformerEncoderSpec(
        c.layers, c.n_heads, layernorm_embedding=True, num_source_embeddings=len(tables),
        embeddings_merge=specs.EmbeddingsMerge.ADD, **how,
    )  # fmt: skip
    spec = specs.TransformerEncoderModelSpec(encoder)
    for theirs, table in zip(encoder.embeddings, tables, strict=True):
        theirs.weight = array(table)
    encoder.scale_embeddings = False
    fill_norm(encoder.layernorm_embedding, model.encoder.norm_inputs)
    fill_stack(encoder, model.encoder, c.max_length)
    spec.register_vocabulary(words)
    return spec


def writer(specs: Any, model: GPT2, words: list[str], how: dict[str, Any]) -> Any:
    c, position = model.config, model.decoder.position
    if isinstance(position, Rotary):
        how |= {"rotary_dim": 0, "rotary_interleave": position.is_interleaved, "rotary_base": position.base}
    spec = specs.TransformerDecoderModelSpec.from_config(c.layers, c.n_heads, rms_norm=c.rms, ffn_glu=c.gated, **how)
    spec.decoder.scale_embeddings = False
    spec.decoder.embeddings.weight = array(model.tokens.weight)
    spec.decoder.projection.weight = array(model.projection.weight)
    if model.projection.bias is not None:  # of tokens that are never written
        spec.decoder.projection.bias = array(model.projection.bias)
    fill_stack(spec.decoder, model.decoder, c.max_length)
    spec.register_vocabulary(words)
    return spec


SPECS: dict[type[Model], Any] = {Transformer: translator, Bert: reader, GPT2: writer}


def fill_stack(spec: Any, stack: Stack, length: int) -> None:
    """Blocks, places and the last normalisation; places are written out, since CTranslate2's own stand in halves."""
    if not isinstance(stack.position, Rotary):
        spec.position_encodings.encodings = array(place_table(stack, length))
    if not isinstance(stack.norm, nn.Identity):
        fill_norm(spec.layer_norm, stack.norm)
    for theirs, block in zip(spec.layer, stack.blocks, strict=True):
        ours: Any = block
        own, inner = ours.attention, ours.feed_forward
        fill_linears(theirs.self_attention.linear, [own.query, own.key, own.value], [own.output])
        fill_norm(theirs.self_attention.layer_norm, ours.attention_residual.norm)
        if ours.has_memory:
            memory = ours.memory_attention
            fill_linears(theirs.attention.linear, [memory.query], [memory.key, memory.value], [memory.output])
            fill_norm(theirs.attention.layer_norm, ours.memory_residual.norm)
        first = inner.expand
        if isinstance(inner, GatedFeedForward):
            first = inner.gate
            fill_linears([theirs.ffn.linear_0_noact], [inner.expand])
        fill_linears([theirs.ffn.linear_0, theirs.ffn.linear_1], [first], [inner.contract])
        fill_norm(theirs.ffn.layer_norm, ours.feed_forward_residual.norm)


def fill_linears(specs: list[Any], *groups: list[nn.Linear]) -> None:
    """One matrix of each group, one layer below the other."""
    for spec, layers in zip(specs, groups, strict=True):
        spec.weight = array(torch.cat([layer.weight for layer in layers]))
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        if biases:
            spec.bias = array(torch.cat(biases))


def fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = array(norm.bias)


def array(tensor: Tensor) -> Any:
    """A copy: CTranslate2 rounds weights in place."""
    return tensor.detach().float().cpu().numpy().copy()
