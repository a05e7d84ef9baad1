"""GPT-2 as transformers saves it: a linear layer is a Conv1D, whose weight stands the other way round."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from qkv.config import from_tree, to_call
from qkv.convert.foreign import ACTIVATIONS, rename
from qkv.errors import InputError
from qkv.models import GPT2Config

# Their name and ours. `lm_head` is the table of tokens once more; `attn.bias` and `attn.masked_bias` of old files hold
# the causal mask.
BLOCK, OURS = r"(?:transformer\.)?h\.(\d+)\.", r"decoder.blocks.\1."
NAMES = [
    (r"(?:transformer\.)?wte\.weight", "tokens.weight"),
    (r"(?:transformer\.)?wpe\.weight", "decoder.positions.0.weight"),
    (r"(?:transformer\.)?ln_f\.(\w+)", r"decoder.norm.\1"),
    (BLOCK + r"ln_1\.(\w+)", OURS + r"attention_residual.norm.\2"),
    (BLOCK + r"ln_2\.(\w+)", OURS + r"feed_forward_residual.norm.\2"),
    (BLOCK + r"attn\.c_attn\.(\w+)", OURS + r"attention.{}.\2"),  # query, key and value in one
    (BLOCK + r"attn\.c_proj\.(\w+)", OURS + r"attention.output.\2"),
    (BLOCK + r"mlp\.c_fc\.(\w+)", OURS + r"feed_forward.expand.\2"),
    (BLOCK + r"mlp\.c_proj\.(\w+)", OURS + r"feed_forward.contract.\2"),
    (r"lm_head\.weight", ""),
    (BLOCK + r"attn\.(masked_)?bias", ""),
]


def config(theirs: Mapping[str, Any], where: str = "config.json") -> GPT2Config:
    """Their settings as ours; a setting that is left out has their default."""
    activation = theirs.get("activation_function", "gelu_new")
    for key, kept in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False),
                      ("tie_word_embeddings", True), ("add_cross_attention", False)):  # fmt: skip
        if theirs.get(key, kept) is not kept:
            raise InputError(f"{where}: {key}={theirs[key]!r} is a GPT-2 that qkv does not have; use one with {kept}")
    if activation not in ACTIVATIONS:
        raise InputError(f"{where}: activation_function={activation!r} is unknown; known: {', '.join(ACTIVATIONS)}")
    dropout = theirs.get("attn_pdrop", 0.1)
    return from_tree(GPT2Config, {
        "vocab_size": theirs.get("vocab_size", 50257), "d_model": theirs.get("n_embd", 768),
        "n_heads": theirs.get("n_head", 12), "layers": theirs.get("n_layer", 12), "d_ff": theirs.get("n_inner") or 0,
        "max_length": theirs.get("n_positions", 1024), "activation": ACTIVATIONS[activation],
        "eps": theirs.get("layer_norm_epsilon", 1e-5), "dropout": theirs.get("resid_pdrop", 0.1),
        "attention": to_call("scaled_dot", {"dropout": dropout} if dropout else {}),
    }, where)  # fmt: skip


def weights(theirs: Mapping[str, Tensor], where: str = "model.safetensors") -> dict[str, Tensor]:
    """Every weight under our name, and the way round that ours stand."""
    ours: dict[str, Tensor] = {}
    for name, tensor in theirs.items():
        found = rename(name, NAMES)
        if found is None:
            raise InputError(f"{where} has {name}, which is no weight of a GPT-2; take another family's folder")
        turned = tensor.t() if tensor.dim() == 2 and ".blocks." in found else tensor
        if "{}" in found:
            parts = zip(("query", "key", "value"), turned.chunk(3), strict=True)
            ours |= {found.format(part): each.contiguous() for part, each in parts}
        elif found:
            ours[found] = turned.contiguous()
    return ours
