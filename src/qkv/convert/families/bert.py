"""BERT, RoBERTa, XLM-RoBERTa, DistilBERT, ERNIE and BigBird as transformers has them. MiniLM and SpanBERT are BERT."""

from dataclasses import replace

from qkv.config import Tree
from qkv.convert.family import Family, HeadNames, Names, plainly

OUR_BLOCK = "encoder.blocks.#."


def block(before: str, *names: tuple[str, str]) -> Names:
    return [(f"{before}{one}.*", f"{OUR_BLOCK}{other}.*") for one, other in names]


def classifier(dense: tuple[str, str], last: str) -> HeadNames:
    return HeadNames("classify", "classes", "classes", [dense, (f"{last}.*", "output.*")])


SETTINGS = (
    ("hidden_size", "d_model", 768),
    ("num_hidden_layers", "layers", 12),
    ("num_attention_heads", "n_heads", 12),
    ("intermediate_size", "d_ff", 3072),
    ("hidden_act", "activation", "gelu"),
    ("hidden_dropout_prob", "dropout", 0.1),
    ("attention_probs_dropout_prob", "attention", 0.1),
    ("max_position_embeddings", "max_length", 512),
    ("type_vocab_size", "segments", 2),
    ("layer_norm_eps", "eps", 1e-12),
)
NAMES: Names = [
    ("embeddings.word_embeddings.weight", "tokens.weight"),
    ("embeddings.token_type_embeddings.weight", "tokens.segments"),
    ("embeddings.position_embeddings.weight", "encoder.positions.0.weight"),
    ("embeddings.LayerNorm.*", "encoder.norm_inputs.*"),
    *block(
        "encoder.layer.#.",
        ("attention.self.query", "attention.query"),
        ("attention.self.key", "attention.key"),
        ("attention.self.value", "attention.value"),
        ("attention.output.dense", "attention.output"),
        ("attention.output.LayerNorm", "attention_residual.norm"),
        ("intermediate.dense", "feed_forward.expand"),
        ("output.dense", "feed_forward.contract"),
        ("output.LayerNorm", "feed_forward_residual.norm"),
    ),
]
POOLER = ("pooler.dense.*", "dense.0.*")
ANSWERS = {
    "ForTokenClassification": HeadNames("tag", "tags", "tags", [("classifier.*", "output.*")]),
    "ForQuestionAnswering": HeadNames("answer", "spans", "spans", [("qa_outputs.*", "output.*")]),
    "ForMultipleChoice": HeadNames("choose", "choices", "choices", [POOLER, ("classifier.*", "output.*")]),
    "Model": HeadNames("", "pooled", "pooled", [POOLER]),
}
NEXT = HeadNames("", "next_sentence", "classes", [POOLER, ("cls.seq_relationship.*", "output.*")], {"dropout": 0.0})

BERT = Family(
    model_type="bert",
    classes="Bert",
    architecture="bert",
    prefix="bert.",
    settings=SETTINGS,
    names=NAMES,
    predicts=[
        ("cls.predictions.transform.dense.*", "projection.dense.*"),
        ("cls.predictions.transform.LayerNorm.*", "projection.norm.*"),
        ("cls.predictions.bias", "projection.bias"),
    ],
    parts={
        "ForSequenceClassification": classifier(POOLER, "classifier"),
        "ForPreTraining": NEXT,
        "ForNextSentencePrediction": NEXT,
        **ANSWERS,
    },
    again=[("cls.predictions.decoder.weight", "tokens.weight"), ("cls.predictions.decoder.bias", "projection.bias")],
    left_out=("embeddings.position_ids",),
    must={"position_embedding_type": "absolute", "is_decoder": False, "tie_word_embeddings": True},
    head_options={"pool": "first", "dense": True},
)
ROBERTA = replace(
    BERT,
    model_type="roberta",
    classes="Roberta",
    architecture="roberta",
    prefix="roberta.",
    predicts=[
        ("lm_head.dense.*", "projection.dense.*"),
        ("lm_head.layer_norm.*", "projection.norm.*"),
        ("lm_head.bias", "projection.bias"),
    ],
    parts={
        "ForSequenceClassification": classifier(("classifier.dense.*", "dense.0.*"), "classifier.out_proj"),
        **ANSWERS,
    },
    again=[("lm_head.decoder.weight", "tokens.weight"), ("lm_head.decoder.bias", "projection.bias")],
    after_padding=True,
)
XLM_ROBERTA = replace(ROBERTA, model_type="xlm-roberta", classes="XLMRoberta")
# ERNIE 1.0 is BERT in another language, ERNIE 2.0 has vectors of tasks.
ERNIE = replace(BERT, model_type="ernie", classes="Ernie", prefix="ernie.", must={**BERT.must, "use_task_id": False})
ERNIE2 = replace(
    ERNIE,
    architecture="ernie2",
    settings=(*SETTINGS, ("task_type_vocab_size", "tasks", 3)),
    names=[*NAMES, ("embeddings.task_type_embeddings.weight", "tasks.weight")],
    must={**BERT.must, "use_task_id": True},
)


def their_blocks(tree: Tree, options: Tree) -> tuple[str, Tree]:
    """BigBird's attention: full, or of blocks as transformers computes them outside training, without dropout."""
    if tree.get("attention_type") == "original_full":
        return "scaled_dot", options
    blocks = {"block": tree.get("block_size", 64), "random": tree.get("num_random_blocks", 3)}
    return "bigbird", {**blocks, "plan": "transformers"}


def as_their_blocks(name: str, options: Tree) -> Tree | None:
    if name != "bigbird":
        return None if plainly(name, options) is None else {"attention_type": "original_full"}
    if options.get("plan") != "transformers" or options.keys() - {"block", "random", "plan"}:
        return None
    sizes = {"block_size": options.get("block", 64), "num_random_blocks": options.get("random", 3)}
    return {"attention_type": "block_sparse", **sizes}


OWN_POOLER = ("pooler.*", "dense.0.*")
BIG_BIRD = replace(
    BERT,
    model_type="big_bird",
    classes="BigBird",
    settings=tuple(
        ("max_position_embeddings", "max_length", 4096) if ours == "max_length" else (key, ours, usual)
        for key, ours, usual in SETTINGS
    ),
    parts={
        "ForSequenceClassification": replace(
            classifier(("classifier.dense.*", "dense.0.*"), "classifier.out_proj"), options={"activation": "gelu_tanh"}
        ),
        "ForPreTraining": replace(NEXT, names=[OWN_POOLER, *NEXT.names[1:]]),
        "ForTokenClassification": ANSWERS["ForTokenClassification"],
        "ForMultipleChoice": HeadNames("choose", "choices", "choices", [OWN_POOLER, ("classifier.*", "output.*")]),
        "Model": HeadNames("", "pooled", "pooled", [OWN_POOLER]),
    },
    must={"is_decoder": False, "tie_word_embeddings": True, "use_bias": True, "rescale_embeddings": False},
    activations={"gelu_new": "gelu_tanh"},
    attends=their_blocks,
    attended=as_their_blocks,
)
BEFORE_CLASSES = ("pre_classifier.*", "dense.0.*")
DISTILBERT = replace(
    BERT,
    model_type="distilbert",
    classes="DistilBert",
    prefix="distilbert.",
    settings=(
        ("dim", "d_model", 768),
        ("n_layers", "layers", 6),
        ("n_heads", "n_heads", 12),
        ("hidden_dim", "d_ff", 3072),
        ("activation", "activation", "gelu"),
        ("dropout", "dropout", 0.1),
        ("attention_dropout", "attention", 0.1),
        ("max_position_embeddings", "max_length", 512),
    ),
    names=[
        *(pair for pair in NAMES if pair[0].startswith("embeddings.") and "token_type" not in pair[0]),
        *block(
            "transformer.layer.#.",
            ("attention.q_lin", "attention.query"),
            ("attention.k_lin", "attention.key"),
            ("attention.v_lin", "attention.value"),
            ("attention.out_lin", "attention.output"),
            ("sa_layer_norm", "attention_residual.norm"),
            ("ffn.lin1", "feed_forward.expand"),
            ("ffn.lin2", "feed_forward.contract"),
            ("output_layer_norm", "feed_forward_residual.norm"),
        ),
    ],
    predicts=[
        ("vocab_transform.*", "projection.dense.*"),
        ("vocab_layer_norm.*", "projection.norm.*"),
        ("vocab_projector.bias", "projection.bias"),
    ],
    parts={
        "ForSequenceClassification": classifier(BEFORE_CLASSES, "classifier"),
        "ForTokenClassification": ANSWERS["ForTokenClassification"],
        "ForQuestionAnswering": ANSWERS["ForQuestionAnswering"],
        "ForMultipleChoice": HeadNames("choose", "choices", "choices", [BEFORE_CLASSES, ("classifier.*", "output.*")]),
    },
    again=[("vocab_projector.weight", "tokens.weight")],
    must={"tie_word_embeddings": True},
    given={"segments": 0, "eps": 1e-12},
    head_options={"pool": "first", "dense": True, "activation": "relu"},
)
