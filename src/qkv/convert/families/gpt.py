"""GPT and GPT-2 as transformers saves them: a linear layer is a Conv1D, whose weight stands the other way round."""

import re
from dataclasses import replace

import torch

from qkv.convert.family import Family, HeadNames, Names, Tensors

PARTS = ("query", "key", "value")  # which are one layer there
TURNED = re.compile(r"h\.\d+\.(attn|mlp)\.c_\w+\.weight")


def into(theirs: Tensors) -> Tensors:
    """Their weights with linear layers as ours, the attention's in three."""
    ours: Tensors = {}
    for name, tensor in theirs.items():
        tensor = tensor.t() if TURNED.fullmatch(name) else tensor
        if ".c_attn." in name:
            parts = zip(PARTS, tensor.tensor_split(3), strict=True)
            ours |= {name.replace("c_attn", part): some for part, some in parts}
        else:
            ours[name] = tensor
    return ours


def out(ours: Tensors) -> Tensors:
    """And back."""
    theirs: Tensors = {}
    for name, tensor in ours.items():
        if ".attn.query." in name:
            name = name.replace("query", "c_attn")
            tensor = torch.cat([ours[name.replace("c_attn", part)] for part in PARTS])
        elif ".attn.key." in name or ".attn.value." in name:
            continue
        theirs[name] = tensor.t().contiguous() if TURNED.fullmatch(name) else tensor
    return theirs


SETTINGS = (
    ("n_embd", "d_model", 768),
    ("n_layer", "layers", 12),
    ("n_head", "n_heads", 12),
    ("n_inner", "d_ff", None),
    ("activation_function", "activation", "gelu_new"),
    ("resid_pdrop", "dropout", 0.1),
    ("attn_pdrop", "attention", 0.1),
    ("n_positions", "max_length", 1024),
    ("layer_norm_epsilon", "eps", 1e-5),
)
BLOCK, OURS = "h.#.", "decoder.blocks.#."
NAMES: Names = [
    (BLOCK + "ln_1.*", OURS + "attention_residual.norm.*"),
    (BLOCK + "ln_2.*", OURS + "feed_forward_residual.norm.*"),
    *((f"{BLOCK}attn.{part}.*", f"{OURS}attention.{part}.*") for part in PARTS),
    (BLOCK + "attn.c_proj.*", OURS + "attention.output.*"),
    (BLOCK + "mlp.c_fc.*", OURS + "feed_forward.expand.*"),
    (BLOCK + "mlp.c_proj.*", OURS + "feed_forward.contract.*"),
]

GPT2 = Family(
    model_type="gpt2",
    classes="GPT2",
    architecture="gpt2",
    prefix="transformer.",
    settings=SETTINGS,
    names=[
        ("wte.weight", "tokens.weight"),
        ("wpe.weight", "decoder.positions.0.weight"),
        ("ln_f.*", "decoder.norm.*"),
        *NAMES,
    ],
    parts={
        "ForSequenceClassification": HeadNames("classify", "classes", "classes", [("score.weight", "output.weight")]),
        "ForTokenClassification": HeadNames("tag", "tags", "tags", [("classifier.*", "output.*")]),
        "ForQuestionAnswering": HeadNames("answer", "spans", "spans", [("qa_outputs.*", "output.*")]),
        "DoubleHeadsModel": HeadNames("choose", "choices", "choices", [("multiple_choice_head.summary.*", "output.*")]),
    },
    again=[("lm_head.weight", "tokens.weight")],
    left_out=(BLOCK + "attn.bias", BLOCK + "attn.masked_bias"),  # the causal mask, in old files
    must={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
        "add_cross_attention": False,
    },
    given={"tied": True},
    into=into,
    out=out,
)
GPT = replace(
    GPT2,
    model_type="openai-gpt",
    classes="OpenAIGPT",
    architecture="gpt",
    settings=tuple(
        {"activation_function": ("afn", "activation", "gelu"), "n_positions": ("n_positions", "max_length", 512)}.get(
            each[0], each
        )
        for each in SETTINGS
        if each[0] != "n_inner"
    ),
    names=[("tokens_embed.weight", "tokens.weight"), ("positions_embed.weight", "decoder.positions.0.weight"), *NAMES],
    left_out=(*GPT2.left_out, "position_ids"),
    must={"tie_word_embeddings": True},
    given={"tied": True, "d_ff": 0},
    activations={
        "gelu": "gelu_tanh",
        "relu": "relu",
        "swish": "swish",
        "silu": "swish",
    },  # their gelu is by tanh
)
