"""A backbone with what stands on it as one ONNX graph, model.onnx, over whole texts.

    model.onnx: ids (B, T), segments (B, T) if it tells two texts apart -> hidden (B, T, D), logits (B, T, V) if it
    predicts words, and what each head of its task says, by the head's name

Padding at the end of a text, which is 0, is seen by no token.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.convert.onnx import save
from qkv.convert.plain import HEADLESS, need
from qkv.errors import InputError
from qkv.files import write_json
from qkv.layers import Projection
from qkv.models import Backbone, Headed, Model
from qkv.text.tokenizer import EOS, PAD, Tokenizer

AXIS = {"ids": 1, "segments": 1, "hidden": 1, "logits": 1, "tags": 1, "spans": 2}  # the axis of tokens


class OnnxReader(nn.Module):
    """What a model says of whole texts, as plain tensors in the order of `outputs`."""

    def __init__(self, model: Model, task: str) -> None:
        super().__init__()
        self.model = model
        backbone: Any = model.backbone if isinstance(model, Headed) else model
        assert isinstance(backbone, Backbone)
        self.has_segments = getattr(backbone.config, "segments", 0) > 1
        self.predicts = isinstance(getattr(backbone, "projection", None), Projection)
        self.heads = list(model.head_texts) if isinstance(model, Headed) and task not in HEADLESS else []

    @property
    def inputs(self) -> list[str]:
        return ["ids", "segments"] if self.has_segments else ["ids"]

    @property
    def outputs(self) -> list[str]:
        return ["hidden", *(["logits"] if self.predicts else []), *self.heads]

    def forward(self, ids: Tensor, *segments: Tensor) -> tuple[Tensor, ...]:
        said = self.model(ids, **dict(zip(self.inputs[1:], segments, strict=True)))
        if isinstance(said, Tensor):  # states alone
            return (said,)
        logits = [said.logits] if self.predicts else []
        return said.hidden, *logits, *(said.answer(name) for name in self.heads)


def write_reader(out: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any]) -> None:
    """Into an empty folder: the graph, tokenizer.json, and what is put around a text."""
    need("onnx", "qkv[onnx]")
    if getattr(model.config, "entities", []):
        raise InputError(
            "onnx cannot hold a model that looks names up in its texts (ernie_thu); use it with qkv itself"
        )
    reader = OnnxReader(copy.deepcopy(model).cpu().eval(), str(about.get("task", "")))
    ids = torch.tensor([[4, 5, 6, EOS], [6, EOS, PAD, PAD]])
    given = (ids, torch.zeros_like(ids)) if reader.has_segments else (ids,)
    lengths = {name: {axis: "length"} for name, axis in AXIS.items()}
    with torch.no_grad():
        save(reader, given, out / "model.onnx", reader.inputs, reader.outputs, lengths)
    tokenizer.save(out / "tokenizer.json")
    backbone: Any = model.backbone if isinstance(model, Headed) else model
    frame = {name: list(part) for name, part in vars(backbone.frame).items()}
    write_json(out / "config.json", {
        "model_type": "qkv-onnx", **about, "inputs": reader.inputs, "outputs": reader.outputs, "frame": frame,
        "pad_token_id": PAD, "max_length": backbone.config.max_length,
    })  # fmt: skip
