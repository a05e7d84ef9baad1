"""A backbone that reads by the native engine: whole sentences, packed, whatever stands beside them."""

import copy
from collections.abc import Sequence
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from qkv.convert import digest
from qkv.engines.native.file import made_of
from qkv.engines.native.library import Floats, How, Native
from qkv.errors import InputError
from qkv.models import Headed, Model, UniLM
from qkv.text.tokenizer import PAD

FILE = "int8.qkv"
M = TypeVar("M", bound=Model)


def open_native(folder: Path, model: M) -> M:
    """The model of a folder that reads by the file which `qkv quantize` has made of its weights."""
    return native_reader(model, native_file(folder))


def native_file(folder: Path) -> Native:
    """... if there is one, and of the weights that the folder has now."""
    path, again = folder / FILE, f"make it with: qkv quantize {folder}"
    if not path.exists():
        raise InputError(f"{folder} has no {FILE}; {again}")
    try:
        native = Native(path)
    except InputError as error:
        raise InputError(f"{error}; {again}") from None
    if made_of(path) != digest(folder):
        raise InputError(f"{path} was made of other weights; {again}")
    return native


def native_reader(model: M, native: Native) -> M:
    """The same model, which shares all weights, with a backbone that is read by the engine."""
    reader = copy.copy(model)
    if isinstance(model, Headed):
        reader._modules = {**model._modules, "backbone": native_reader(cast(Model, model.backbone), native)}
    else:
        reader.native, reader.encode = native, encoding(model, native)  # type: ignore[assignment]
    return reader


def encoding(model: Any, native: Native) -> Any:
    """What takes the place of a backbone's `encode`."""

    @wraps(model.encode)
    def encode(
        ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None, **more: Any
    ) -> Tensor:  # fmt: skip
        """States (B, T, D) at real tokens, and zeros elsewhere. What the engine has no form for, the model reads
        itself: masks of pairs, padding that is not at the end, and what few models take beside."""
        real = ids != PAD if mask is None else mask  # (B, T)
        others = {"segments": segments, "mask": mask, **more}
        is_told = isinstance(model, UniLM) and segments is not None and bool((segments > 1).any())
        if more or is_told or real.dim() != 2 or bool((real[:, 1:] & ~real[:, :-1]).any()):
            return model.encode(ids, **others)
        lengths = real.sum(dim=1)
        parts = [one[real].numpy() for one in (ids, segments) if one is not None]
        found = native.read(lengths[lengths > 0].numpy(), *parts, threads=torch.get_num_threads())
        states = torch.zeros(*ids.shape, native.width)
        states[real] = torch.from_numpy(found)
        return states

    return encode


def vectors(native: Native, rows: Sequence[Sequence[int]], pool: How) -> Floats:
    """The mean, first or last state (n, D) of each row of ids; zeros for a row of none."""
    lengths = np.array([len(row) for row in rows], np.int32)
    ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(lengths.sum()))
    found = np.zeros((len(rows), native.width), np.float32)
    found[lengths > 0] = native.read(lengths[lengths > 0], ids, pool=pool, threads=torch.get_num_threads())
    return found
