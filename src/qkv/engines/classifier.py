"""A classifier by a folder's own file, without torch: what `qkv predict` asks where that is enough."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from qkv.config import Tree, parse_call
from qkv.device import device_name
from qkv.engines.native.kept import file_of, vectors
from qkv.engines.native.library import Native
from qkv.engines.native.prediction import ACTIVATIONS, weights_of
from qkv.errors import InputError
from qkv.folder import Loaded, look
from qkv.text.asking import fields
from qkv.text.frames import FRAMES

CLASSES = "classes"
DENSE: Tree = {"tanh": np.tanh, "relu": ACTIVATIONS["relu"], "gelu_tanh": ACTIVATIONS["gelu_tanh"]}
OUTPUT, INNER = ("output.weight", "output.bias"), ("dense.0.weight", "dense.0.bias")
TASK = SimpleNamespace(name="classify", one=(str, Mapping), names={})  # what else a command asks of it


class ByFile:
    """{"label": "pos", "probabilities": {"neg": 0.1, "pos": 0.9}} for each text, as tasks.Classifier answers: softmax(W
    f(V h + b) + c), h the state that stands for a text."""

    task = TASK

    def __init__(self, loaded: Loaded, native: Native, options: Tree, weights: list[Any]) -> None:
        """`options` and `weights` are the head's."""
        self.about, self.tokenizer, self.native = loaded.about, loaded.tokenizer, native
        self.frame, self.most = FRAMES[loaded.architecture], loaded.about.get("max_length") or loaded.size
        self.pool, self.activation = options.get("pool", "last"), DENSE[options.get("activation", "tanh")]
        (self.weight, self.bias), self.inner = weights[:2], weights[2:]

    def predict(self, given: Sequence[Any]) -> list[Tree]:
        texts = [fields(one, {"text": ["text", "sentence"]}, f"text {i}")[0] for i, one in enumerate(given, start=1)]
        if not all(text.strip() for text in texts):
            raise InputError("a text without a word was given; give at least one sentence")
        rows = [ids[::-1] if self.about.get("backward") else ids for ids in self.tokenizer.encode_batch(texts)]
        framed = [self.frame.join(self.tokenizer, [ids], self.most)[0] for ids in rows]
        x = vectors(self.native, framed, self.pool)
        if self.inner:
            x = self.activation(x @ self.inner[0].T + self.inner[1])
        logits = x @ self.weight.T + self.bias
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return [self.named(row) for row in (p / p.sum(axis=1, keepdims=True)).tolist()]

    def named(self, probabilities: list[float]) -> Tree:
        named: Tree = dict(zip(self.about["labels"], probabilities, strict=True))
        return {"label": max(named, key=named.__getitem__), "probabilities": named}


def by_file(path: Path, device: str, engine: str) -> ByFile | None:
    """The classifier of a folder that has the native engine's file and a plain head; any other is opened as ever."""
    if not path.is_dir():
        return None
    loaded = look(path, device_name(device))
    name, options = parse_call(loaded.heads.get(CLASSES, "other"))
    is_plain = (
        name == CLASSES and options.get("pool", "last") != "concat" and options.get("activation", "tanh") in DENSE
    )
    if loaded.about.get("task") != TASK.name or not is_plain or loaded.about.get("max_length", 0) > loaded.size:
        return None
    names = [f"heads.{CLASSES}.{part}" for part in OUTPUT + INNER * bool(options.get("dense"))]
    weights = weights_of(loaded, names)
    file = None if weights is None else file_of(loaded, engine)
    return None if weights is None or file is None else ByFile(loaded, file, options, weights)
