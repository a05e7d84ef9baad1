"""Llama as transformers saves it: each head with keys of its own, rotary positions of one base, no biases."""

from dataclasses import replace
from pathlib import Path

from qkv.config import Tree
from qkv.convert.family import Family, Tensors, read
from qkv.convert.foreign import Converted
from qkv.errors import InputError

BLOCK, OURS = "layers.#.", "decoder.blocks.#."
LLAMA = Family(
    model_type="llama",
    classes="Llama",
    architecture="llama",
    prefix="model.",
    writes="ForCausalLM",
    settings=(
        ("hidden_size", "d_model", 4096),
        ("num_hidden_layers", "layers", 32),
        ("num_attention_heads", "n_heads", 32),
        ("intermediate_size", "d_ff", 11008),
        ("hidden_act", "activation", "silu"),
        ("attention_dropout", "attention", 0.0),
        ("max_position_embeddings", "max_length", 2048),
        ("rms_norm_eps", "eps", 1e-6),
        ("rope_theta", "position", 10000.0),
        ("tie_word_embeddings", "tied", False),
    ),
    names=[
        ("embed_tokens.weight", "tokens.weight"),
        ("norm.weight", "decoder.norm.weight"),
        (BLOCK + "input_layernorm.weight", OURS + "attention_residual.norm.weight"),
        (BLOCK + "post_attention_layernorm.weight", OURS + "feed_forward_residual.norm.weight"),
        (BLOCK + "self_attn.q_proj.weight", OURS + "attention.query.weight"),
        (BLOCK + "self_attn.k_proj.weight", OURS + "attention.key.weight"),
        (BLOCK + "self_attn.v_proj.weight", OURS + "attention.value.weight"),
        (BLOCK + "self_attn.o_proj.weight", OURS + "attention.output.weight"),
        (BLOCK + "mlp.gate_proj.weight", OURS + "feed_forward.gate.weight"),
        (BLOCK + "mlp.up_proj.weight", OURS + "feed_forward.expand.weight"),
        (BLOCK + "mlp.down_proj.weight", OURS + "feed_forward.contract.weight"),
    ],
    beside=[("lm_head.weight", "projection.weight")],
    parts={},
    left_out=(BLOCK + "self_attn.rotary_emb.inv_freq",),  # in old files
    must={"attention_bias": False, "mlp_bias": False},
)


def read_llama(folder: Path, tree: Tree, theirs: Tensors) -> Converted:
    """What newer ones have besides (fewer heads of keys, scaled positions) is refused by name."""
    where = f"{folder}/config.json"
    tree = {key: value for key, value in tree.items() if value is not None}
    rope: Tree = {}
    for given in (tree.get("rope_parameters", {}), tree.get("rope_scaling", {})):  # by its new name and its old one
        rope |= given if isinstance(given, dict) else {"rope_theta": given}
    base = rope.get("rope_theta", tree.get("rope_theta", 10000.0))
    if not isinstance(base, int | float):
        raise InputError(f"{where} has no number as the base of its rotary positions (rope_theta); copy it again")
    tree |= {"rope_theta": base, "rope_type": rope.get("type", rope.get("rope_type", "default"))}
    heads, width = tree.get("num_attention_heads", 32), tree.get("hidden_size", 4096)
    must = {**LLAMA.must, "num_key_value_heads": heads, "rope_type": "default"}
    if isinstance(heads, int) and isinstance(width, int) and heads > 0:
        must["head_dim"] = width // heads
    family = replace(LLAMA, must=must)
    if tree.get("tie_word_embeddings"):
        family = replace(family, beside=(), again=[("lm_head.weight", "tokens.weight")])
    return read(family, folder, tree, theirs)
