"""Folders of sentence-transformers: modules.json says how the states of a text become one vector."""

from pathlib import Path
from typing import Any

from qkv.config import Tree
from qkv.errors import InputError
from qkv.files import read_json as parsed

# Their switch in 1_Pooling/config.json and our name.
POOLS = {"pooling_mode_cls_token": "first", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}


def sentence_settings(folder: Path) -> Tree:
    """What such a folder says: the task embed, pool, normalise, max_length. Nothing, if it is none."""
    if not (folder / "modules.json").exists():
        return {}
    about: Tree = {"task": "embed", "normalise": False}
    for module in read_json(folder / "modules.json", list):
        kind, place = str(module.get("type")).rpartition(".")[2], folder / str(module.get("path", ""))
        if folder.resolve() not in (place.resolve(), *place.resolve().parents):
            raise InputError(f"{folder}/modules.json names {module['path']!r}, which is outside; copy the folder again")
        if kind == "Pooling":
            about["pool"] = pool_in(place / "config.json")
        elif kind == "Normalize":
            about["normalise"] = True
        elif kind != "Transformer":
            raise InputError(f"{folder}/modules.json asks for {kind}, which qkv does not have; use a model without it")
    path = folder / "sentence_bert_config.json"
    settings = read_json(path, dict) if path.exists() else {}
    if isinstance(settings.get("max_seq_length"), int):
        about["max_length"] = settings["max_seq_length"]
    return about | ({"lowercase": True} if settings.get("do_lower_case") else {})


def pool_in(path: Path) -> str:
    settings = read_json(path, dict)
    chosen = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value is True]
    if len(chosen) != 1 or chosen[0] not in POOLS:
        raise InputError(f"{path} pools by {chosen}, which qkv does not; use a model with one of {', '.join(POOLS)}")
    return POOLS[chosen[0]]


def read_json(path: Path, kind: type) -> Any:
    try:
        found = parsed(path)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, kind):
        raise InputError(f"{path} is damaged or missing; copy the whole model folder again")
    return found
