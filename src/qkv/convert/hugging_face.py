"""Our models of a family as transformers opens them: config.json, model.safetensors and a tokenizer with its frame."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from qkv.attention import NAMED
from qkv.config import Tree, parse_call, split_calls
from qkv.convert.families.bert import BERT, BIG_BIRD, DISTILBERT, ERNIE2, ROBERTA
from qkv.convert.families.gpt import GPT, GPT2
from qkv.convert.families.llama import LLAMA
from qkv.convert.families.xlnet import XLNET
from qkv.convert.family import (
    OWNED,
    POOLED,
    POSITIONS,
    PREDICTING,
    TABLES,
    Family,
    HeadNames,
    Names,
    Tensors,
    rename,
    turned,
)
from qkv.convert.foreign import write_tokenizer
from qkv.errors import InputError
from qkv.files import write_json, write_with
from qkv.models import Backbone, Headed, Model
from qkv.positions import POSITIONS as PLACES
from qkv.text.frames import Frame
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

NO_FRAME, BEGIN = Frame((), (), ()), Frame(("<s>",), (), ())


def family_of(model: Model) -> Family | None:
    """The family that can hold a model; a BERT without segments is a DistilBERT, one that reads blocks a BigBird."""
    backbone = model.backbone if isinstance(model, Headed) else model
    families = [each for each in (BERT, ROBERTA, ERNIE2, GPT, GPT2, LLAMA, XLNET) if type(backbone) is each.model]
    if families == [BERT]:
        is_sparse = parse_call(backbone.config.attention_of("encoder"), NAMED)[0] == "bigbird"
        texts = model.head_texts.values() if isinstance(model, Headed) else ()
        if is_sparse or any(parse_call(text)[1].get("activation") == "gelu_tanh" for text in texts):
            return BIG_BIRD
        return BERT if backbone.config.segments else DISTILBERT
    return families[0] if families else None


def write_family(out: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any], family: Family) -> None:
    """Into an empty folder: what transformers' AutoModel and AutoTokenizer open."""
    backbone: Any = model.backbone if isinstance(model, Headed) else model
    assert isinstance(backbone, Backbone)
    check(backbone, family)
    end, part = their_class(model, family)
    c, is_writer = backbone.config, not family.predicts and part is None
    without = c.silent if is_writer else []
    tensors = their_weights(model, family, end, part, without)
    names = {key: value for key, value in family.must.items() if key != "position_embedding_type"}
    ids = {f"{name}_token_id": number - sum(other < number for other in without)
           for name, number in (("pad", PAD), ("bos", BOS), ("eos", EOS)) if number not in without}  # fmt: skip
    write_json(out / "config.json", {
        "model_type": family.model_type, "architectures": [f"{family.classes}{end}"], "dtype": "float32", **names,
        **their_settings(c, family), "vocab_size": c.vocab_size - len(without), **ids, **labels(part, about, c),
        "qkv": dict(about),
    })  # fmt: skip
    frame = backbone.frame
    if is_writer:
        frame = BEGIN if about.get("bos") else NO_FRAME
    special = {"cls_token": "<s>", "sep_token": "</s>"} if family.predicts else {}
    special |= {"mask_token": "<mask>"} if "<mask>" in tokenizer.specials else {}
    segments = getattr(c, "segments", 1)
    reads = ["input_ids", *(["token_type_ids"] if segments > 1 else []), "attention_mask"]
    write_tokenizer(
        out, tokenizer, frame, segments=segments, without=without, special=special, model_max_length=c.max_length,
        model_input_names=reads, padding_side="left" if family.pads_left else "right",
    )  # fmt: skip
    write_with(out / "model.safetensors", lambda path: save_file(tensors, path, metadata={"format": "pt"}))


def check(backbone: Backbone, family: Family) -> None:
    """Refuse a model with something that theirs do not have."""
    c = backbone.config
    attention, options = parse_call(c.attention, NAMED) if len(split_calls(c.attention)) == 1 else ("several", {})
    position, how = parse_call(c.position, PLACES)
    usual = {name: one.default for name, one in type(c).__dataclass_fields__.items()}
    is_usual = c.position == usual["position"] or (position == usual["position"] and how.keys() <= {"base"})
    inside = (0.0, c.dropout) if any(own == "activation_dropout" for _, own, _ in family.settings) else (0.0,)
    inner = c.inner_width == 4 * c.d_model or "d_ff" not in family.given
    others = [key for key, value in family.given.items() if key != "d_ff" and getattr(c, key) != value]
    for setting, holds in (
        (f"attention={c.attention!r}", family.attended(attention, options) is not None),
        (f"position={c.position!r}", is_usual),
        (f"d_k={c.d_k}", c.head_width * c.n_heads == c.d_model),
        (f"d_ff={c.d_ff}", inner),
        (f"norm={c.norm!r}", c.norm == usual["norm"]),
        (f"attention_bias={c.attention_bias}", c.attention_bias == usual["attention_bias"]),
        (f"activation={c.activation!r}", c.activation in family.activations.values()),
        (f"activation_dropout={c.activation_dropout}", c.activation_dropout in inside),
        *((f"{key}={getattr(c, key)}", False) for key in others),
    ):
        if not holds:
            raise InputError(
                f"transformers' {family.model_type} cannot hold this model because of its setting {setting}; use it "
                "with qkv itself, or train one without it"
            )


def heads_held(model: Model, family: Family) -> dict[str, str]:
    """The heads of a model that theirs can hold. What a model that predicts words was trained with beside, such as
    SpanBERT's boundaries, is left out, as the authors do."""
    heads = dict(model.head_texts) if isinstance(model, Headed) else {}
    if family.predicts and model.config.predicts:
        known = {part.head for part in family.parts.values()} | {"number"}
        heads = {name: text for name, text in heads.items() if name in known and name != "pooled"}
    return heads


def their_class(model: Model, family: Family) -> tuple[str, HeadNames | None]:
    """The end of the name of the class that has just what stands on the backbone, and that."""
    heads, predicts = heads_held(model, family), bool(family.predicts) and model.config.predicts
    if not heads:
        return family.predictor if predicts else "Model" if family.predicts else family.writes, None
    name, text = next(iter(heads.items()))
    kind, options = parse_call(text)
    usual = {"n": options.get("n"), "dropout": options.get("dropout"), "pool": "last"}
    for end, part in family.parts.items():
        wanted: Tree = {**family.head_options, **part.options} if kind in POOLED else {}
        wanted.pop("dropout", None)
        if len(heads) > 1 or dict(options.items() - usual.items()) != wanted or (end in PREDICTING and not predicts):
            continue
        if part.kind == kind and part.head == name:
            return end, part
        if name == kind == "number" and end == "ForSequenceClassification":
            return end, replace(part, task="similarity", head=name, kind=kind)
    raise InputError(
        f"transformers has no {family.model_type} class with {', '.join(heads.values())} on it; use it with qkv itself"
    )


def their_settings(c: Any, family: Family) -> Tree:
    theirs: Tree = {}
    for key, ours, _ in family.settings:
        value = getattr(c, ours)
        if ours == "activation":
            value = next(name for name, own in family.activations.items() if own == value)
        elif ours == "attention":
            value = parse_call(value, NAMED)[1].get("dropout", 0.0)
        elif ours == "position":
            value = parse_call(value, PLACES)[1].get("base", 10000.0)
        elif ours == "d_ff":
            value = c.inner_width
        elif ours == "max_length":
            value += family.first(PAD)
        theirs[key] = value
    return theirs | (family.attended(*parse_call(c.attention, NAMED)) or {})


def labels(part: HeadNames | None, about: Mapping[str, Any], c: Any) -> Tree:
    """The names of a head's answers, as config.json has them."""
    if part and part.kind in ("number", "choices"):
        return {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "problem_type": "regression"}
    named = about.get("labels") if part and part.task in ("classify", "tag") else None
    if not named:
        return {}
    return {"id2label": {str(i): name for i, name in enumerate(named)},
            "label2id": {name: i for i, name in enumerate(named)}}  # fmt: skip


@torch.no_grad()
def their_weights(model: Model, family: Family, end: str, part: HeadNames | None, without: list[int]) -> Tensors:
    """Every weight under their name, and as theirs stand; what their class does not have is left out."""
    ours = {name.removeprefix("backbone."): value.detach().float().cpu() for name, value in model.named_parameters()}
    kept = [row for row in range(model.config.vocab_size) if row not in without]
    for name in TABLES:
        if name in ours and without:
            ours[name] = ours[name][kept]
    first = family.first(PAD)
    if first:
        ours[POSITIONS] = torch.cat((torch.zeros(first, ours[POSITIONS].size(1)), ours[POSITIONS]))
    own: Names = [(one, f"heads.{part.head}.{other}") for one, other in part.names] if part else []
    above: Names = [*own, *family.beside, *(family.predicts if end in PREDICTING else ())]
    prefix = "" if end == "Model" else family.prefix
    inside, beside = Tensors(), Tensors()
    for name, tensor in ours.items():
        if found := rename(name, turned(family.names)):
            inside[found] = tensor
        elif found := rename(name, turned(above)):
            (inside if found.startswith(OWNED) else beside)[found] = tensor
        elif name.endswith("output.bias") and part and tensor.any():
            raise InputError(
                f"transformers' {family.classes}{end} has no bias in its last layer, and this model has learned one; "
                "use it with qkv itself"
            )
    theirs = {f"{prefix}{name}": tensor for name, tensor in family.out(inside).items()} | beside
    return {name: tensor.contiguous() for name, tensor in theirs.items()}
