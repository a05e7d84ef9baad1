"""A family of other people's models as tables, of their names and ours, that are read in both directions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.config import Tree, from_tree, to_call
from qkv.convert.adopt import adopt, begins
from qkv.convert.foreign import ACTIVATIONS, Converted
from qkv.convert.sentence import sentence_settings
from qkv.errors import InputError, nearest
from qkv.models import MODELS, Backbone

Names = Sequence[tuple[str, str]]  # theirs and ours: # is the number of a block, * is weight or bias; "" is left out
Tensors = dict[str, Tensor]
TABLES = ("tokens.weight", "projection.bias", "projection.weight")  # which have a row for each token
# Weights whose sides are sizes of the model.
SIZES = (
    ("tokens.weight", "d_model", 1),
    ("tokens.segments", "segments", 0),
    ("tasks.weight", "tasks", 0),
    ("positions.0.weight", "max_length", 0),
    ("blocks.0.feed_forward.expand.weight", "inner_width", 0),
)
POSITIONS = "encoder.positions.0.weight"
POOLED = ("classes", "number", "choices")  # heads over one state of a text
PREDICTING = ("ForMaskedLM", "ForPreTraining", "LMHeadModel")  # their classes that predict words
OWNED = "pooler."  # a part of their heads that they count to the backbone


@dataclass(frozen=True)
class HeadNames:
    """What stands on the backbone in one of their classes: the task that it is for, our head, and names in it."""

    task: str
    head: str  # as objectives name it
    kind: str  # in layers.HEADS
    names: Names
    options: Mapping[str, Any] = field(default_factory=dict)  # of our head, beside those that the family has


def plainly(name: str, options: Tree) -> Tree | None:
    """Full attention needs no setting of theirs but its dropout."""
    return {} if name == "scaled_dot" and options.keys() <= {"dropout"} else None


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type` of theirs."""

    model_type: str
    classes: str  # how the names of their classes begin
    architecture: str  # ours
    prefix: str  # of the backbone's weights where something stands on it; files of a backbone alone lack it
    settings: Sequence[tuple[str, str, Any]]  # their name, ours, and their value where it is left out
    names: Names
    parts: Mapping[str, HeadNames]  # by the end of their class's name
    writes: str = "LMHeadModel"  # the end of the name of the class that writes, where there is one
    predicts: Names = ()  # what predicts hidden words,
    predictor: str = "ForMaskedLM"  # and the end of the name of the class that has it and nothing else
    beside: Names = ()  # weights beside the backbone, without its prefix
    again: Names = ()  # second names of weights, under which alone some files have them
    left_out: Sequence[str] = ()  # buffers
    must: Mapping[str, Any] = field(default_factory=dict)  # settings that can be no others, and their usual values
    given: Mapping[str, Any] = field(default_factory=dict)  # settings of ours that theirs do not have
    activations: Mapping[str, str] = field(default_factory=lambda: ACTIVATIONS)
    attends: Callable[[Tree, Tree], tuple[str, Tree]] = lambda tree, options: ("scaled_dot", options)  # and what of
    attended: Callable[[str, Tree], Tree | None] = plainly  # theirs holds an attention of ours, None if nothing does
    head_options: Mapping[str, Any] = field(default_factory=dict)  # of a head over the whole text
    after_padding: bool = False  # whether positions are counted from the id of the padding on
    pads_left: bool = False  # whether texts end with the token that stands for them, padding before
    into: Callable[[Tensors], Tensors] = lambda tensors: tensors  # their weights as ours stand, and back
    out: Callable[[Tensors], Tensors] = lambda tensors: tensors

    @property
    def model(self) -> type[Backbone]:
        kind = MODELS[self.architecture]
        assert issubclass(kind, Backbone)
        return kind

    def first(self, pad: int) -> int:
        """The row of their table of positions that the first token has."""
        return pad + 1 if self.after_padding else 0


def rename(name: str, names: Names) -> str | None:
    """The second name of the first pair whose first one fits all of `name`; None if none does."""
    for one, other in names:
        pattern = re.escape(one).replace(r"\#", r"(?P<number>\d+)").replace(r"\*", r"(?P<leaf>weight|bias)")
        if found := re.fullmatch(pattern, name):
            parts = {"number": "", "leaf": "", **found.groupdict()}
            return other.replace("#", parts["number"]).replace("*", parts["leaf"])
    return None


def turned(names: Names) -> Names:
    """From ours to theirs."""
    return [(ours, theirs) for theirs, ours in names if ours]


# -- theirs to ours --------------------------------------------------------------------------------------------------


def read(family: Family, folder: Path, tree: Tree, theirs: Tensors) -> Converted:
    """`tree` is their config.json, `theirs` their weights; nothing of them is ever executed."""
    where, named = f"{folder}/config.json", f"{folder}/model.safetensors"
    theirs = {plain(name, family.prefix): tensor for name, tensor in theirs.items()}
    part = find_part(family, tree, theirs)
    predicts = any(rename(name, family.predicts) for name in theirs)
    if family.predicts and their_class(family, tree) in PREDICTING and not predicts:
        raise InputError(f"{named} lacks what predicts words, but {where} says {tree['architectures'][0]}; copy again")
    size = size_in(tree, where)
    for name, ours in (*family.names, *family.again):
        if ours == TABLES[0] and name in theirs:
            check_rows(theirs[name], size, f"{named}: {name}")
    tokenizer, rows = adopt(folder, size=size, extra=family.model.frame.specials)
    try:
        weights = our_weights(family, theirs, part, rows, pad_in(tree), named)
    except (RuntimeError, TypeError):  # what is turned, parted or put in order is no matrix, or no vector
        raise InputError(f"{named} has weights of shapes that no {family.model_type} has; copy it again") from None
    more: Tree = {"vocab_size": len(rows)} | ({"predicts": predicts} if family.predicts else {})
    if silent := [number for number, row in enumerate(rows) if row < 0]:
        if family.predicts:
            name = tokenizer.vocabulary()[silent[0]]
            raise InputError(f"{folder}: its tokenizer has nothing for {name}; name it in tokenizer_config.json")
        more["silent"] = silent
    config = from_tree(family.model.config_class, our_settings(family, tree, where) | more, where)
    about: Tree = {"task": task_of_class(family, tree)}
    heads: dict[str, str] = {}
    check_sizes(config, weights, named)
    if part:
        weights = {name if name.startswith("heads.") else f"backbone.{name}": value for name, value in weights.items()}
        heads, found = head_in(family, part, tree, weights, named)
        about |= found
    elif not family.predicts and begins(folder):
        about["bos"] = True
    about |= sentence_settings(folder)
    kept = tree.get("qkv")
    return Converted(
        family.architecture, config, weights, tokenizer, {**kept, **about} if isinstance(kept, dict) else about, heads
    )


def plain(name: str, prefix: str) -> str:
    """Without what stands before the names of a backbone; norms in old files have other names for theirs."""
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name)).removeprefix(prefix)


def size_in(tree: Tree, where: str) -> int:
    size = tree.get("vocab_size")
    if not isinstance(size, int):
        raise InputError(f"{where} has no vocab_size that is a number; copy the whole model folder again")
    return size


def pad_in(tree: Tree) -> int:
    pad = tree.get("pad_token_id", 1)
    return pad if isinstance(pad, int) else 1


def their_class(family: Family, tree: Tree) -> str:
    """The end of the name of the class that wrote the folder, "Model" where none is named."""
    names = tree.get("architectures")
    name = names[0] if isinstance(names, list) and names else ""
    return str(name).removeprefix(family.classes) or "Model"


def task_of_class(family: Family, tree: Tree) -> str:
    """What a model of theirs is for, by its class."""
    own = their_class(family, tree)
    if own in family.parts and family.parts[own].task:
        return "similarity" if own.endswith("SequenceClassification") and is_number(tree) else family.parts[own].task
    return "language_model" if not family.predicts else "fill" if own in PREDICTING else "embed"


def find_part(family: Family, tree: Tree, theirs: Tensors) -> HeadNames | None:
    """What stands on the backbone: what their class says, or else what there are weights of."""
    own = their_class(family, tree)
    wanted = family.parts.get(own)
    if wanted and own != "Model":
        if own.endswith("Classification") and is_number(tree):
            return replace(wanted, task="similarity", head="number", kind="number")
        return wanted
    found = [family.parts[name] for name in ("ForPreTraining", "Model") if name in family.parts]
    return next((part for part in found if all(any(fits(one, name) for name in theirs) for one, _ in part.names)), None)


def fits(pattern: str, name: str) -> bool:
    return rename(name, [(pattern, "x")]) is not None


def is_number(tree: Tree) -> bool:
    labels = tree.get("id2label")
    return tree.get("problem_type") == "regression" or (isinstance(labels, dict) and len(labels) == 1)


def our_weights(
    family: Family, theirs: Tensors, part: HeadNames | None, rows: Sequence[int], pad: int, where: str
) -> Tensors:
    """Every weight under our name, as ours stand; our id i is their id rows[i]."""
    own = [(one, f"heads.{part.head}.{other}") for one, other in part.names] if part else []
    left = [(name, "") for name in (*family.left_out, *(name for name, _ in family.again))]
    others = [(one, "") for each in family.parts.values() for one, _ in each.names]  # of a class that it is not
    names, ours = [*own, *family.names, *family.predicts, *family.beside, *left, *others], Tensors()
    for name, tensor in family.into(theirs).items():
        found = rename(name, names)
        if found is None:
            raise InputError(
                f"{where} has {name}, which is no weight of a {family.model_type} model that qkv has; take another one"
            )
        if found:
            ours[found] = tensor.float().contiguous()
    ours = {found: theirs[name].float() for name, found in family.again if name in theirs} | ours
    if POSITIONS in ours:
        ours[POSITIONS] = ours[POSITIONS][family.first(pad) :]
    return ours | {name: permuted(ours[name], rows, f"{where}: {name}") for name in TABLES if name in ours}


def permuted(table: Tensor, rows: Sequence[int], where: str) -> Tensor:
    """Their rows in our order. A token that they do not have gets the mean of all: once it is learned, it is as likely
    at first as any other."""
    check_rows(table, sum(row >= 0 for row in rows), where)
    return torch.cat((table, table.mean(dim=0, keepdim=True)))[torch.tensor(rows)]  # -1 is the last one


def check_rows(table: Tensor, size: int, where: str) -> None:
    if table.dim() and len(table) != size:
        raise InputError(f"{where} has {len(table)} rows, but config.json says vocab_size={size}; copy both again")


def check_sizes(config: Any, weights: Tensors, where: str) -> None:
    """Refuse sizes that the weights do not have before a model is built, for which there may be no memory."""
    found = {"layers": len({name.split(".")[2] for name in weights if ".blocks." in name})}
    for name, size, side in SIZES:
        for full in (name, f"encoder.{name}", f"decoder.{name}"):
            if full in weights and weights[full].dim() > side:
                found[size] = weights[full].size(side)
    for size, number in found.items():
        if (asked := getattr(config, size)) != number:
            raise InputError(f"{where} has weights with {size}={number}, but config.json says {asked}; copy both again")


def our_settings(family: Family, tree: Tree, where: str) -> Tree:
    for key, value in family.must.items():
        if tree.get(key, value) != value:
            raise InputError(f"{where}: {key}={tree[key]!r} is a model that qkv does not have; use one with {value!r}")
    ours: Tree = {own: usual if tree.get(key) is None else tree[key] for key, own, usual in family.settings}
    activation = str(ours["activation"])
    if activation not in family.activations:
        hint = nearest(activation, family.activations)
        raise InputError(f"{where}: the activation {activation!r} is unknown to qkv; {hint}")
    ours["activation"] = family.activations[activation]
    dropout = ours.pop("attention")
    ours["attention"] = to_call(*family.attends(tree, {"dropout": dropout} if dropout else {}))
    if "position" in ours:  # the base of rotary ones
        base = float(ours["position"])
        ours["position"] = to_call("rotary", {"base": base} if base != 10000 else {})
    if isinstance(ours["max_length"], int):
        ours["max_length"] -= family.first(pad_in(tree))
    ours = {**family.given, **ours}
    return {**ours, "d_ff": ours["d_ff"] or 0}


def head_in(family: Family, part: HeadNames, tree: Tree, weights: Tensors, where: str) -> tuple[dict[str, str], Tree]:
    """The head that its weights make, as a text, and what is known of its answers."""
    about, options = Tree(), Tree()
    last, bias = (f"heads.{part.head}.output.{leaf}" for leaf in ("weight", "bias"))
    if last in weights:
        weights.setdefault(bias, torch.zeros(len(weights[last])))
        n = len(weights[last])
        if part.kind in ("classes", "tags"):
            options["n"] = n
            if part.task in ("classify", "tag"):
                about["labels"] = labels_in(tree, n, where)
    if part.task == "answer":
        about["has_null"] = False  # which no setting of theirs tells
    if part.kind in POOLED:
        options |= {**family.head_options, **part.options}
    return {part.head: to_call(part.kind, options)}, about


def labels_in(tree: Tree, n: int, where: str) -> list[str]:
    named = tree.get("id2label") or {str(i): f"LABEL_{i}" for i in range(n)}
    try:
        labels = [str(label) for _, label in sorted((int(number), label) for number, label in named.items())]
    except (ValueError, TypeError, AttributeError):
        raise InputError(f"{where}: id2label of config.json is no table of numbers and names; copy it again") from None
    if len(labels) != n:
        raise InputError(f"{where} has {n} labels, but id2label of config.json names {len(labels)}; copy both again")
    if len(set(labels)) < n:
        raise InputError(f"{where}: id2label of config.json names {labels} more than once; give each a name of its own")
    return labels
