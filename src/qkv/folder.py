"""A model folder: config.json, tokenizer.json and model.safetensors; nothing else is needed to load it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from qkv import manifest, parts
from qkv.config import from_tree, to_tree
from qkv.convert import FAMILIES, their_task
from qkv.errors import InputError, nearest
from qkv.files import read_json, write_json
from qkv.layers import Pool
from qkv.models import MODELS, Backbone, Headed, Model, count_parameters
from qkv.positions import Learned
from qkv.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from qkv.weights import check_finite, load_weights, save_weights

FILES = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
)  # fmt: skip
VERSION = 1  # of the folder's layout; a folder from a later one is refused


class About(TypedDict, total=False):
    """What config.json tells beside the model's settings. Keys that are not among these are kept as they are."""

    task: str  # a name in TASKS; a folder without it holds a translator
    source: str
    target: str
    languages: list[str]  # of sentences that none was paired with
    longest_source: int  # tokens of the longest one in training
    whole_lines: bool  # whether a line of several sentences is read as one
    labels: list[str]  # of a classifier or a tagger, by their numbers
    max_length: int  # tokens of a text; what is longer was cut, or read in windows
    pool: Pool  # whose state is the vector of a text,
    normalise: bool  # and whether it is made to have the length 1
    window: int  # tokens that are read at once
    backward: bool  # whether texts are read from their end
    lowercase: bool
    max_words: int  # of a sentence
    max_sentences: int  # of a text
    symmetric: bool  # whether two texts are read in both orders
    stride: int  # tokens by which windows move on
    max_question: int  # tokens of a question
    max_answer: int  # tokens of an answer
    max_target: int  # tokens of a summary
    has_null: bool  # whether there were questions without an answer
    bos: bool  # whether <s> stands before every text that is written on
    documents: str  # what parts those of passages: see RunningTextConfig
    objective: str  # what training asked, where it was not just what the task asks
    heads: dict[str, str]  # on a backbone, each by its name
    entities: list[str]  # of a graph, each by its number,
    relations: list[str]  # and those that they are in
    parts: list[str]  # of a mixture, each with its task: "rte=pair",
    mixture: dict[str, dict[str, Any]]  # and what is remembered of each, by its name


@dataclass(frozen=True)
class Loaded:
    """What a model folder holds."""

    model: Model
    tokenizer: Tokenizer
    about: About
    folder: Path | None = None


class RunFolder:
    """Where a training run keeps things: all of it in `training`, inside the model folder that it writes."""

    def __init__(self, out: Path) -> None:
        self.out = Path(out)
        self.place = self.out / "training"
        self.recipe = self.place / "recipe.toml"
        self.corpus = self.place / "data"
        self.checkpoints = self.place / "checkpoints"
        self.log = self.place / "log.jsonl"
        self.curves = self.place / "curves.png"
        self.baselines = self.place / "baselines.json"
        self.results = self.out / "results.json"


def save(folder: Path, model: Model, tokenizer: Tokenizer, about: About) -> None:
    """Hugging Face's file names, so that other tools see something familiar. The weights are written last."""
    name, settings = origin(model)
    layout: dict[str, Any] = {"model_type": f"qkv-{name}", "qkv_version": VERSION, "tokenizer": tokenizer.fingerprint}
    heads = {"heads": model.head_texts} if isinstance(model, Headed) else {}
    tree = to_tree(settings)
    chosen = [name, tree, heads, about.get("task", ""), about.get("objective", "")]
    if imports := parts.needed_by(chosen):
        layout["imports"] = imports
    write_json(folder / "config.json", {**layout, **about, **heads, name: tree})
    tokenizer.save(folder / "tokenizer.json")
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special})
    write_json(folder / "special_tokens_map.json", special)
    ids = {"pad": PAD, "bos": BOS, "decoder_start": BOS, "eos": EOS, "unk": UNK}
    write_json(folder / "generation_config.json", {f"{name}_token_id": number for name, number in ids.items()})
    manifest.seal(folder, FILES)  # not the weights: while a run goes on, new ones take the place of the old at any time
    save_weights(folder / "model.safetensors", weights(model))


def load(folder: Path, device: str = "cpu") -> Loaded:
    """Model and tokenizer, checked against each other; nothing in the folder is ever executed.

    A folder that transformers saved is read too, if its family is one of convert.FAMILIES.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"no model folder at {folder}; give the folder that `qkv train --out` wrote")
    about, path = read_config(folder), folder / "model.safetensors"
    if (read := FAMILIES.get(about["model_type"])) is not None:
        found = read(folder, about, load_weights(path))
        model = made(found.architecture, found.config, found.weights, path, device, found.heads)
        return Loaded(model, found.tokenizer, described(found.about, folder), folder)
    name = str(about.pop("model_type")).removeprefix("qkv-")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if about.pop("tokenizer", None) != tokenizer.fingerprint:
        raise InputError(
            f"{folder}/tokenizer.json is not the one this model was trained with; copy the whole model folder again"
        )
    config = from_tree(MODELS[name].config_class, about.pop(name), f"{folder}/config.json")
    if len(tokenizer) != config.vocab_size:
        raise InputError(
            f"{folder}: the vocabulary has {len(tokenizer)} entries but the model expects {config.vocab_size}; "
            "copy the whole model folder again"
        )
    heads = described(about, folder).pop("heads", {})
    model = made(name, config, load_weights(path), path, device, heads)
    model.know(tokenizer)
    manifest.check(folder)
    return Loaded(model, tokenizer, cast(About, about), folder)


def made(
    name: str, config: Any, tensors: dict[str, Tensor], path: Path, device: str, heads: Mapping[str, str] | None = None
) -> Model:
    """The model that `config` describes, perhaps with heads on it, with the tensors of `path`."""
    try:
        with torch.random.fork_rng(devices=[]):  # what a new model draws is not taken from the caller's numbers
            model = MODELS[name](config)
            if heads and isinstance(model, Backbone):
                model = Headed(model, heads)
    except (RuntimeError, MemoryError):  # sizes that no memory holds; a digit too many is enough
        raise InputError(f"{path.parent}/config.json asks for a model that is too large for this machine") from None
    fill(model, tensors, path)
    check_finite(model, path)
    return model.to(device).eval()


def read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise InputError(
            f"{folder} has no config.json, so it is not a model folder (or its training has not saved yet)"
        )
    try:
        about: dict[str, Any] = read_json(path)
        if about["model_type"] in FAMILIES:
            return {**about, "task": their_task(folder, about)}
        name = str(about["model_type"]).removeprefix("qkv-")
        if "qkv_version" not in about and name == about["model_type"]:
            raise InputError(f"{path}: qkv reads no model of the type {name!r}; {nearest(name, FAMILIES)}")
        version = int(about.pop("qkv_version"))
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise InputError(f"{path} is damaged or not from qkv; copy the whole model folder again") from None
    if version > VERSION:
        raise InputError(f"{path} was written by a later qkv (layout {version}, this one reads {VERSION}); update qkv")
    parts.check_needed(about.pop("imports", {}), str(folder))
    if name not in MODELS or name not in about:
        raise InputError(f"{path}: unknown model {name!r}; {nearest(name, MODELS)}")
    return about


def described(tree: Any, folder: Path) -> About:
    """What else config.json tells, whose values must be of the types that they should be."""
    kinds = get_type_hints(About)
    try:
        for name in filter(kinds.__contains__, tree):
            TypeAdapter(kinds[name]).validate_python(tree[name], strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(f"{folder}/config.json: {name}: {reason} (given: {tree[name]!r})") from None
    return cast(About, tree)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter under its first name; tied ones appear once."""
    return {name: value.detach().contiguous().cpu() for name, value in model.named_parameters()}


def fill(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy the tensors into the model: each must be used, each parameter must be filled, each shape must fit."""
    own = dict(model.named_parameters())
    for name in sorted(own.keys() ^ tensors.keys()):
        what = "lacks" if name in own else "has an unknown"
        raise InputError(f"{path} {what} {name}; the weights do not fit config.json")
    with torch.no_grad():
        for name, parameter in own.items():
            if parameter.shape != tensors[name].shape:
                raise InputError(
                    f"{path}: {name} has shape {tuple(tensors[name].shape)}, "
                    f"config.json expects {tuple(parameter.shape)}"
                )
            parameter.copy_(tensors[name])


def start_from(model: nn.Module, start: Loaded, where: str, anew: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Give a model the weights of another: the names of those that were taken, and of those that are new.

    A backbone fits whatever stands on it. A table with more rows than the old one keeps the old rows as its first; the
    new ones are drawn, or of a model with `new_rows` they are the mean of the old ones (Howard & Ruder 2018). Learned
    positions are copied over and over (Beltagy et al. 2020, section 5): whoever stands near a token is told as before.
    What begins with a name of `anew` is new in any case.
    """
    named = dict(start.model.named_parameters())
    theirs = {bare(name): value for name, value in named.items()}
    offsets = {f"{name}.weight": part.offset for name, part in model.named_modules() if isinstance(part, Learned)}
    taken, new = list[str](), list[str]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if bare(name) not in theirs or name.startswith(anew):
                new.append(name)
                continue
            own, given = torch.atleast_1d(
                parameter, named.get(name, theirs[bare(name)])
            )  # the baseline of a hard attention is a number
            if own.shape[1:] != given.shape[1:] or len(own) < len(given):
                raise InputError(
                    f"{where}: its {name} has the shape {tuple(given.shape)}, and here it would be "
                    f"{tuple(own.shape)}; start with the sizes of that model, or leave --start out"
                )
            own[: len(given)] = given
            taken.append(name)
            if len(own) > len(given) and name in offsets:
                old = given[offsets[name] :]
                own[len(given) :] = old[torch.arange(len(own) - len(given)) % len(old)]
                new.append(f"{len(own) - len(given)} places of {name}, copies of the first {len(old)} over and over")
            elif len(own) > len(given):
                if getattr(origin_of(model), "new_rows", "") == "mean":
                    own[len(given) :] = given.mean(dim=0)
                new.append(f"{len(own) - len(given)} rows of {name}")
    if not taken:
        raise InputError(f"{where} holds nothing that this model could begin with; start from a model of the same kind")
    return taken, new


def bare(name: str) -> str:
    """A parameter's name without the backbone that it is in. The layer before a head, BERT's pooler, is one for all."""
    return re.sub(r"^backbone\.|^heads\.[\w.]+\.(?=dense\.)", "", name)


def origin_of(model: Any) -> Any:
    return model.backbone if isinstance(model, Headed) else model


def origin(model: Model) -> tuple[str, Any]:
    """The architecture of a model, or of the backbone that it stands on, and its settings."""
    model = origin_of(model)
    return next(name for name, kind in MODELS.items() if type(model) is kind), model.config


def in_brief(opened: Any, engine: str) -> str:
    """What was loaded, in a line: its task, its languages, its size and what computes."""
    about, model = opened.about, opened.model
    languages = " -> ".join(filter(None, (about.get("source"), about.get("target"))))
    sizes = f"{origin(model)[0]} of {count_parameters(model):,} parameters"
    parts = [f"task {about.get('task', 'translate')}", languages, sizes, f"engine {engine}"]
    place = f" from {opened.folder}" if opened.folder else ""
    return f"<{type(opened).__name__}{place}: {', '.join(filter(None, parts))}>"
