"""What another format can hold: the paper's own Transformer with a table of positions; any other part is refused."""

import importlib
from typing import Any

import torch
from torch import Tensor

from qkv.attention import MultiHead, Soft
from qkv.attention.scores import ScaledDot
from qkv.errors import InputError
from qkv.layers import NEVER, Stack
from qkv.models import (
    GPT,
    GPT2,
    Backbone,
    Bert,
    Headed,
    Llama,
    Model,
    Roberta,
    SequenceToSequence,
    Transformer,
    architecture_of,
)
from qkv.positions import Learned, Places, Position, Rotary, Sinusoidal
from qkv.text.tokenizer import BOS, PAD, UNK

CTRANSLATE2 = (Bert, Roberta, GPT, GPT2, Llama)  # an ERNIE 2.0 has vectors of tasks, for which there is no place
HEADLESS = ("fill", "embed", "language_model")  # tasks whose heads, if any, were for training alone
HOLDS = {
    "ctranslate2": "a transformer, bert, roberta, gpt, gpt2 or llama",
    "onnx": "a transformer or a backbone with attention that has no RMS norms",
    "huggingface": "a transformer, bert, roberta, ernie2, gpt, gpt2, llama or xlnet",
}


def need(module: str, install: str) -> Any:
    """A library that only some commands need, or one sentence that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f'{module} is needed for this and is not installed; run: pip install "{install}"') from None


def check_plain(model: Model, form: str) -> Transformer:
    """The model, if `form` can hold it; otherwise one sentence says which setting it cannot hold."""
    if not isinstance(model, Transformer):
        raise InputError(
            f"{form} cannot hold {architecture_of(model)} models, only {HOLDS[form]}; use it with qkv itself"
        )
    c = model.config
    attentions = [part.attend for part in model.modules() if isinstance(part, MultiHead)]
    position = model.encoder.position
    places = position.length if isinstance(position, Learned) else c.max_length
    named = [(name, getattr(c, name)) for name in ("attention", "encoder_attention", "memory_attention")]
    for setting, holds in (
        (
            ", ".join(f"{name}={value!r}" for name, value in named if value),
            all(type(part) is Soft and type(part.score) is ScaledDot for part in attentions),
        ),
        (f"position={c.position!r}", type(position) in (Position, Sinusoidal, Learned)),
        (f"position={c.position!r} with max_length={c.max_length}", places >= c.max_length),
        (f"d_k={c.d_k}", c.head_width * c.n_heads == c.d_model),
    ):
        if not holds:
            raise InputError(
                f"{form} cannot hold this model because of its setting {setting}; translate with qkv itself, or train "
                "with scaled_dot attention, sinusoidal or learned positions and d_k=0"
            )
    return model


def check_backbone(model: Model, form: str, task: str) -> Model:
    """The same of a model that does not translate."""
    backbone, headed = (model.backbone, model) if isinstance(model, Headed) else (model, None)
    is_known = type(backbone) in CTRANSLATE2
    if form == "onnx":
        has_stack = any(isinstance(part, Stack) for part in backbone.modules())
        is_known = isinstance(backbone, Backbone) and has_stack and not isinstance(backbone, Llama)  # no RMS norm
        if isinstance(backbone, SequenceToSequence) and headed is None and task not in HEADLESS:
            raise InputError(
                f"onnx holds how {architecture_of(model)} models read, and not how they write, which is what this one "
                f"was trained for (task {task}); use it with qkv itself"
            )
    if not is_known:
        check_plain(model if headed is None else backbone, form)
    c: Any = backbone.config
    if form == "ctranslate2" and headed and task not in HEADLESS:
        raise InputError(
            f"ctranslate2 has no place for what stands on this backbone, {', '.join(headed.head_texts.values())}; "
            "export it --to onnx, or use it with qkv itself"
        )
    attentions = [part.attend for part in backbone.modules() if isinstance(part, MultiHead)]
    stack = next(part for part in backbone.modules() if isinstance(part, Stack))
    kinds = (Position, Sinusoidal, Learned, *([Rotary] if form == "onnx" or isinstance(backbone, GPT2) else []))
    for setting, holds in (
        (f"attention={c.attention!r}", all(type(one) is Soft and type(one.score) is ScaledDot for one in attentions)),
        (f"position={c.position!r}", type(stack.position) in kinds),
        (f"d_k={c.d_k}", form == "onnx" or c.head_width * c.n_heads == c.d_model),
    ):
        if not holds:
            raise InputError(f"{form} cannot hold this model because of its setting {setting}; use it with qkv itself")
    return model


@torch.no_grad()
def place_table(stack: Stack, length: int) -> Tensor:
    """What the stack's positions add to the embeddings at places 0..length-1: (T, D)."""
    parameter = next(stack.parameters())
    nothing = parameter.new_zeros(1, length, stack.blocks[0].feed_forward.expand.in_features)  # type: ignore[union-attr, arg-type]
    return stack.position.embed(nothing, Places.span(0, length, parameter.device))[0].cpu()


@torch.no_grad()
def output_bias(model: Transformer) -> Tensor:
    """The bias of each word's logit (V,); the tokens that no translation holds can never win."""
    own = model.vocabulary.bias
    bias = torch.zeros(model.config.vocab_size) if own is None else own.cpu().clone()
    bias[[PAD, BOS, UNK]] = NEVER
    return bias
