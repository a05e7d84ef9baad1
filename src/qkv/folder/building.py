"""Models out of folders and into them: the half of a model folder that is made of tensors."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv import manifest, parts
from qkv.config import from_tree, to_tree
from qkv.convert import FAMILIES, find_package
from qkv.convert.native import read
from qkv.errors import InputError
from qkv.files import write_json
from qkv.folder.loaded import FILES, VERSION, About, Loaded, described
from qkv.manifest import NATIVE
from qkv.models import MODELS, Backbone, Headed, Model, architecture_of
from qkv.positions import Learned
from qkv.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from qkv.weights import check_finite, load_weights, save_weights


def save(
    folder: Path, model: Model, tokenizer: Tokenizer, about: About, tensors: dict[str, Tensor] | None = None
) -> None:
    """Hugging Face's file names, so that other tools see something familiar. The weights are written last: the model's,
    or those that are given in their place."""
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
    save_weights(folder / "model.safetensors", weights(model) if tensors is None else tensors)


def load_theirs(folder: Path, about: dict[str, Any], device: str) -> Loaded | None:
    """What a folder holds that transformers saved; None if it is of no family."""
    path = folder / "model.safetensors"
    if (read := FAMILIES.get(about["model_type"])) is None:
        return None
    found = read(folder, about, load_weights(path))
    model = made(found.architecture, found.config, found.weights, path, device, found.heads)
    return Loaded(model, found.tokenizer, described(found.about, folder), folder)


def load_package(path: Path, device: str) -> Loaded | None:
    """The translator of another program that a folder or an archive holds; None if there is none."""
    if (theirs := find_package(path)) is None:
        return None
    found = theirs.read()
    model = made(found.architecture, found.config, found.weights, path / "model", device)
    return Loaded(model, found.tokenizer, described({**found.about, "task": "translate"}, path), path)


def built(folder: Path, name: str, settings: Any, tokenizer: Tokenizer, heads: Mapping[str, str], device: str) -> Model:
    """The model of a folder of ours, with its weights."""
    path, form = folder / "model.safetensors", folder / NATIVE
    config = from_tree(MODELS[name].config_class, settings, f"{folder}/config.json")
    is_small = form.exists() and not path.exists()
    tensors = weights_in(form, name, config) if is_small else load_weights(path)
    model = made(name, config, tensors, path, device, heads)
    model.know(tokenizer)
    manifest.check(folder)
    return model


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


def weights_in(form: Path, name: str, config: Any) -> dict[str, Tensor]:
    """The weights of a model, as the native engine's file has them, rounded."""
    with torch.random.fork_rng(devices=[]):
        model = MODELS[name](config)
    read(form, model)
    return weights(model)


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
    return architecture_of(model), origin_of(model).config
