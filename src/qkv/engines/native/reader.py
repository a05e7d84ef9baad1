"""A backbone that reads by the native engine: whole sentences, packed, whatever stands beside them."""

import copy
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from qkv.engines.native.kept import FILE as FILE
from qkv.engines.native.kept import native_file as native_file
from qkv.engines.native.kept import threads
from qkv.engines.native.kept import vectors as vectors
from qkv.engines.native.library import Native
from qkv.models import Headed, Model, UniLM
from qkv.text.tokenizer import PAD

M = TypeVar("M", bound=Model)


def open_native(folder: Path, model: M) -> M:
    """The model of a folder that reads by the file which `qkv quantize` has made of its weights."""
    return native_reader(model, native_file(folder))


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
        found = native.read(lengths[lengths > 0].numpy(), *parts, threads=threads())
        states = torch.zeros(*ids.shape, native.width)
        states[real] = torch.from_numpy(found)
        return states

    return encode
