"""Which attention a recipe's text names: ATTENTIONS, SCORES for soft attention by that score, or neither."""

from qkv.attention.scores import SCORES
from qkv.attention.soft import Soft
from qkv.config import build, parse_call, to_call
from qkv.errors import InputError, nearest
from qkv.positions import Sizes

ATTENTIONS: dict[str, type[Soft]] = {
    "soft": Soft,
}
# Attentions that are built around one of the above, or belong to other tasks: names that a recipe cannot swap in.
STRUCTURES: dict[str, str] = {
    "self": "Vaswani et al. 2017: queries, keys and values from the same text; every encoder and decoder block has it",
    "memory": "Bahdanau et al. 2015: encoder-decoder attention, keys and values from the source; every decoder block",
    "causal": "Vaswani et al. 2017, section 3.2.3: a query sees itself and what stands before it; every decoder block",
    "multi_head": "Vaswani et al. 2017, section 3.2.2: several attentions side by side; set n_heads",
}


def build_attention(spec: str, sizes: Sizes, use: str) -> Soft:
    """The attention that `spec` names; `additive(width=64)` is short for `soft(score='additive(width=64)')`."""
    name, options = parse_call(spec)
    if name in STRUCTURES:
        raise InputError(f"{name!r} is not an attention to swap in ({STRUCTURES[name]}); see qkv list attention")
    if name not in ATTENTIONS and name not in SCORES:
        raise InputError(f"unknown attention {name!r}; {nearest(name, [*ATTENTIONS, *SCORES])}")
    if name in SCORES:
        dropout = {"dropout": options.pop("dropout")} if "dropout" in options else {}
        spec = to_call("soft", {"score": to_call(name, options), **dropout})
    part = build(ATTENTIONS, spec, sizes)
    if use not in part.uses:
        raise InputError(
            f"{name!r} attention cannot stand in the {use} of a model, only in: {', '.join(part.uses)}; "
            "set encoder_attention, attention or memory_attention apart"
        )
    return part
