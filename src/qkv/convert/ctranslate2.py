"""Our Transformer as a CTranslate2 folder: model.bin, config.json, the vocabulary, and our tokenizer.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.convert.plain import need, output_bias, place_table
from qkv.errors import InputError, nearest
from qkv.layers import Stack
from qkv.models import Transformer
from qkv.text.tokenizer import BOS, EOS, UNK, Tokenizer

QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")


def write_ctranslate2(
    out: Path, model: Transformer, tokenizer: Tokenizer, about: Mapping[str, Any], quantization: str = ""
) -> None:
    """Into an empty folder, through CTranslate2's own description of a Transformer."""
    if quantization and quantization not in QUANTIZATIONS:
        raise InputError(f"unknown quantization {quantization!r}; {nearest(quantization, QUANTIZATIONS)}")
    specs = need("ctranslate2.specs", "qkv[ctranslate2]")
    c = model.config
    activations = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH"}
    spec = specs.TransformerSpec.from_config(
        (c.encoder_layers, c.decoder_layers),
        c.n_heads,
        pre_norm=c.norm == "pre",
        activation=getattr(specs.Activation, activations[c.activation]),
    )
    fill_stack(spec.encoder, model.encoder, c.max_length)
    fill_stack(spec.decoder, model.decoder, c.max_length)
    spec.encoder.embeddings[0].weight = array(model.source.weight)
    spec.decoder.embeddings.weight = array(model.target.weight)
    spec.decoder.projection.weight = array(model.vocabulary.weight)
    spec.decoder.projection.bias = array(output_bias(model))
    words = tokenizer.vocabulary()
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words[UNK], words[BOS], words[EOS]
    spec.config.decoder_start_token, spec.config.add_source_eos = words[BOS], True
    spec.config.layer_norm_epsilon = c.eps
    spec.validate()
    spec.optimize(quantization or None)
    spec.save(str(out))
    tokenizer.save(out / "tokenizer.json")


def fill_stack(spec: Any, stack: Stack, length: int) -> None:
    """Blocks, places and the last normalisation; places are written out, since CTranslate2's own stand in halves."""
    spec.position_encodings.encodings = array(place_table(stack, length))
    if isinstance(stack.norm, nn.LayerNorm):
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
        fill_linears([theirs.ffn.linear_0, theirs.ffn.linear_1], [inner.expand], [inner.contract])
        fill_norm(theirs.ffn.layer_norm, ours.feed_forward_residual.norm)


def fill_linears(specs: list[Any], *groups: list[nn.Linear]) -> None:
    """One matrix of each group, one layer below the other."""
    for spec, layers in zip(specs, groups, strict=True):
        spec.weight = array(torch.cat([layer.weight for layer in layers]))
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        if biases:
            spec.bias = array(torch.cat(biases))


def fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def array(tensor: Tensor) -> Any:
    """A copy: CTranslate2 rounds weights in place."""
    return tensor.detach().float().cpu().numpy().copy()
