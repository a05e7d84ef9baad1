"""What many tests need: data that may be there, tiny tokenizers and batches, tensors and weights compared."""

import io
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from qkv.data import Batch, RowsInMemory
from qkv.data.batches import collate
from qkv.models import MODELS, Model
from qkv.objectives import Asked
from qkv.text.tokenizer import PAD, Tokenizer

Pairs = list[tuple[str, str]]
WORDS = ["red", "green", "blue", "cat", "dog", "house", "tree", "bird", "fish", "sun", "moon", "star", "road", "hill"]
DATA = Path(os.environ.get("QKV_DATA", Path(__file__).parents[2] / "shared" / "data"))


def real(*names: str) -> Path:
    """A file or folder of the real data; the test is skipped where it is absent."""
    path = DATA.joinpath(*names)
    if not path.exists():
        pytest.skip(f"{path} is not there; name the folder of the data sets in QKV_DATA")
    return path


def tokenizer(*texts: str, size: int = 300, kind: str = "bpe") -> Tokenizer:
    """Sub-words of a few words; what is left of `size` is merged from them."""
    return Tokenizer.train([" ".join(texts) or "the cat sat on the mat"] * 3, kind=kind, vocab_size=size)


def some_pairs(count: int, seed: int = 7) -> Pairs:
    """Different sentences of made-up words; the other language writes each word, and their order, backwards."""
    rng = random.Random(seed)
    sources: dict[str, None] = {}
    while len(sources) < count:
        sources[" ".join(rng.choices(WORDS, k=rng.randint(2, 7)))] = None
    return [(source, source[::-1]) for source in sources]


def write_tsv(path: Path, pairs: Pairs) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def batch(*rows: Sequence[Sequence[int]]) -> Batch:
    """Rows side by side, in the order in which they are given."""
    return collate(RowsInMemory(rows).shard(0), 0, np.arange(len(rows)))


def asked(labels: Tensor, **inputs: Any) -> Asked:
    """A question to a model whose right answers are these; padding is not asked for."""
    return Asked(inputs, labels, int((labels != PAD).sum()))


def draw(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def close(found: Tensor, expected: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


SIZES = {"vocab_size": 40, "d_model": 16, "d_ff": 24, "n_heads": 2, "layers": 1, "encoder_layers": 1,
         "decoder_layers": 1, "d_embedding": 8, "d_hidden": 8, "d_arc": 8, "max_length": 300, "dropout": 0.0,
         "word_dropout": 0.0}  # fmt: skip


def sizes(name: str, **settings: Any) -> dict[str, Any]:
    """Tiny sizes for a model of MODELS, of those settings that it has."""
    known = {field.name for field in fields(MODELS[name].config_class)}
    return {key: value for key, value in {**SIZES, **settings}.items() if key in known}


def tiny_model(name: str, **settings: Any) -> Model:
    """A model of MODELS by its name, always with the same first weights."""
    torch.manual_seed(0)
    return MODELS[name](MODELS[name].config_class(**sizes(name, **settings)))


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal to the bit, name by name."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.removesuffix("\n").split("\n") if self.out else []


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: object, stdin: str = "") -> Result:
    """`qkv ...` in this process, without torch's start-up; tests have it as the fixture `command`."""
    from qkv import cli

    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for name in ("out", "err")}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["qkv", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        patch.setattr(sys, "stdout", streams["out"])
        patch.setattr(sys, "stderr", streams["err"])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    out, err = (stream.buffer.getvalue().decode() for stream in streams.values())
    return Result(stopped.value.code if isinstance(stopped.value.code, int) else 0, out, err)
