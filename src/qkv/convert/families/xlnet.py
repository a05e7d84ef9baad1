"""XLNet as transformers saves it: the projections of attention are tensors (D, H, K)."""

import re

from qkv.convert.family import Family, HeadNames, Names, Tensors

PROJECTION = re.compile(r"layer\.\d+\.rel_attn\.([qkvor])")
BIAS = re.compile(r"layer\.\d+\.rel_attn\.r_[wrs]_bias")
QUERY = "mask_emb"


def into(theirs: Tensors) -> Tensors:
    """Their weights as those of linear layers; biases as they are added to heads."""
    ours: Tensors = {}
    for name, tensor in theirs.items():
        if found := PROJECTION.fullmatch(name):
            tensor = tensor.flatten(1) if found[1] == "o" else tensor.flatten(1).t()
        elif BIAS.fullmatch(name):
            tensor = tensor[:, None]
        elif name.endswith("seg_embed"):
            tensor = tensor[:, :, None]
        ours[name] = tensor.flatten() if name == QUERY else tensor
    return ours


def out(ours: Tensors) -> Tensors:
    """And back."""
    theirs: Tensors = {}
    for name, tensor in ours.items():
        if found := PROJECTION.fullmatch(name):
            heads = ours[f"{name.rpartition('.')[0]}.r_w_bias"].shape[::2]  # (H, K)
            tensor = (tensor if found[1] == "o" else tensor.t()).unflatten(1, heads)
        elif BIAS.fullmatch(name) or name.endswith("seg_embed"):
            tensor = tensor.squeeze(-2)
        theirs[name] = tensor[None, None] if name == QUERY else tensor
    return theirs


BLOCK, ATTENTION, OURS, POSITION = "layer.#.", "layer.#.rel_attn.", "encoder.blocks.#.", "encoder.positions.#."
NAMES: Names = [
    ("word_embedding.weight", "tokens.weight"),
    (QUERY, "query"),
    (ATTENTION + "q", OURS + "attention.query.weight"),
    (ATTENTION + "k", OURS + "attention.key.weight"),
    (ATTENTION + "v", OURS + "attention.value.weight"),
    (ATTENTION + "o", OURS + "attention.output.weight"),
    (ATTENTION + "layer_norm.*", OURS + "attention_residual.norm.*"),
    (ATTENTION + "r", POSITION + "project.weight"),
    (ATTENTION + "r_w_bias", POSITION + "u"),
    (ATTENTION + "r_r_bias", POSITION + "v"),
    (ATTENTION + "r_s_bias", POSITION + "s"),
    (ATTENTION + "seg_embed", POSITION + "segments"),
    (BLOCK + "ff.layer_1.*", OURS + "feed_forward.expand.*"),
    (BLOCK + "ff.layer_2.*", OURS + "feed_forward.contract.*"),
    (BLOCK + "ff.layer_norm.*", OURS + "feed_forward_residual.norm.*"),
]
SUMMARY: Names = [("sequence_summary.summary.*", "dense.0.*"), ("logits_proj.*", "output.*")]

XLNET = Family(
    model_type="xlnet",
    classes="XLNet",
    architecture="xlnet",
    prefix="transformer.",
    settings=(
        ("d_model", "d_model", 1024),
        ("n_layer", "layers", 24),
        ("n_head", "n_heads", 16),
        ("d_inner", "d_ff", 4096),
        ("ff_activation", "activation", "gelu"),
        ("layer_norm_eps", "eps", 1e-12),
        ("mem_len", "memory", 0),
        ("model_max_length", "max_length", 512),  # ours: a model of relative places has none in theirs
        ("dropout", "attention", 0.1),  # one for all places; when it is written, that of the sub-layers
        ("dropout", "activation_dropout", 0.1),
        ("dropout", "dropout", 0.1),
    ),
    names=NAMES,
    predicts=[("lm_loss.bias", "projection.bias")],
    predictor="LMHeadModel",
    parts={
        "ForSequenceClassification": HeadNames("classify", "classes", "classes", SUMMARY),
        "ForTokenClassification": HeadNames("tag", "tags", "tags", [("classifier.*", "output.*")]),
        "ForQuestionAnsweringSimple": HeadNames("answer", "spans", "spans", [("qa_outputs.*", "output.*")]),
        "ForMultipleChoice": HeadNames("choose", "choices", "choices", SUMMARY),
    },
    again=[("lm_loss.weight", "tokens.weight")],
    must={
        "attn_type": "bi",
        "bi_data": False,
        "clamp_len": -1,
        "reuse_len": None,
        "same_length": False,
        "untie_r": True,
        "summary_type": "last",
        "summary_use_proj": True,
        "summary_activation": "tanh",
        "tie_word_embeddings": True,
    },
    head_options={"dense": True},
    pads_left=True,
    into=into,
    out=out,
)
