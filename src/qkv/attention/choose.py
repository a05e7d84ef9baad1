"""Which attention a recipe's text names: ATTENTIONS, SCORES for soft attention by that score, or neither."""

import inspect
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from qkv.attention.bigbird import BigBird
from qkv.attention.hard import Hard, StraightThrough, TopK
from qkv.attention.local import LocalP, Scope
from qkv.attention.scores import SCORES
from qkv.attention.shortened import Linformer, MemoryCompressed
from qkv.attention.soft import Soft
from qkv.attention.sparse import Local, LocalM, Window
from qkv.config import build, parse_call, to_call
from qkv.errors import InputError, nearest
from qkv.positions import Sizes

ATTENTIONS: dict[str, type[Soft]] = {
    "soft": Soft,
    "hard": Hard,
    "straight_through": StraightThrough,
    "top_k": TopK,
    "local_m": LocalM,
    "local_p": LocalP,
    "window": Window,
    "local": Local,
    "bigbird": BigBird,
    "linformer": Linformer,
    "memory_compressed": MemoryCompressed,
    "scope": Scope,
}
NAMED: Mapping[str, type] = ChainMap(ATTENTIONS, SCORES)  # what a text may name
# Attentions that are built around one of the above, or belong to other tasks: names that a recipe cannot swap in.
STRUCTURES: dict[str, str] = {
    "self": "Vaswani et al. 2017: queries, keys and values from the same text; every encoder and decoder block has it",
    "memory": "Bahdanau et al. 2015: encoder-decoder attention, keys and values from the source; every decoder block",
    "cross": "Vaswani et al. 2017, section 3.2.3: another word for memory",
    "causal": "Vaswani et al. 2017, section 3.2.3: a query sees itself and what stands before it; every decoder block",
    "multi_head": "Vaswani et al. 2017, section 3.2.2: several attentions side by side; set n_heads",
    "single": "Bahdanau et al. 2015: one query, one pass over one text; a learned query is in attention/pooling.py",
    "hierarchical": "Yang et al. 2016: over the words of each sentence, then over sentences; models/hierarchical.py",
    "attention_over_attention": "Cui et al. 2017: question words weigh each other's attention; models/reader.py",
}


def build_attention(spec: str, sizes: Sizes, use: str) -> Soft:
    """The attention that `spec` names; `additive(width=64)` is short for `soft(score='additive(width=64)')`."""
    name, options = parse_call(spec, NAMED)
    if name in STRUCTURES:
        raise InputError(f"{name!r} is not an attention to swap in ({STRUCTURES[name]}); see qkv list attention")
    if name not in ATTENTIONS and name not in SCORES:
        raise InputError(f"unknown attention {name!r}; {nearest(name, [*ATTENTIONS, *SCORES])}")
    if name in SCORES:
        spec = soft_by(name, options)
    part = build(ATTENTIONS, spec, sizes)
    if use not in part.uses:
        raise InputError(
            f"{name!r} attention cannot stand in the {use} of a model, only in: {', '.join(part.uses)}; "
            "set encoder_attention, attention or memory_attention apart"
        )
    return part


def where_it_can(spec: str, use: str) -> str:
    """`spec`, or scaled_dot where an attention of that name cannot stand: a window has no place over a source."""
    part = ATTENTIONS.get(parse_call(spec, NAMED)[0])
    return spec if part is None or use in part.uses else "scaled_dot"


def soft_by(score: str, options: dict[str, Any]) -> str:
    """Soft attention by a score: the score's own options are its, the others are the attention's."""
    known = {key: kind for kind in (Soft, SCORES[score]) for key in inspect.signature(kind).parameters}
    del known["sizes"], known["score"]
    for key in options:
        if key not in known:
            raise InputError(f"{score!r} has no option {key!r}; {nearest(key, known)}")
    own = {key: value for key, value in options.items() if known[key] is not Soft}
    return to_call("soft", {"score": to_call(score, own)} | {k: v for k, v in options.items() if k not in own})
