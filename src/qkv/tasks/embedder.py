"""What `qkv.load` gives for a model that embeds: texts in, vectors out."""

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from qkv.decoding.searcher import by_length
from qkv.device import ENGINE
from qkv.engines import open_reader
from qkv.engines.native.library import Native
from qkv.engines.native.reader import vectors
from qkv.errors import InputError, nearest
from qkv.folder import Loaded, in_brief
from qkv.layers import pooled
from qkv.models import Headed
from qkv.text.frames import Pool
from qkv.text.several import several
from qkv.text.tokenizer import PAD

CELLS = 2**11  # tokens of a batch, padding counted: enough for products, and of like lengths
Vectors = NDArray[np.float32]


class Embedder:
    """`qkv.load(folder).embed(texts)`: float32 (n, D), a row for each text; (D,) for one text alone.

    >>> vectors = qkv.load("bert", task="embed").embed(["A dog.", "A cat."])

    Of a folder that was trained for something else: `qkv.load(folder, task="embed")`. `pool` and `normalise` are the
    folder's own unless given, and without any the mean of all states, as it is.
    """

    def __init__(
        self, task: Any, loaded: Loaded, *, engine: str = ENGINE, pool: Pool | None = None,
        normalise: bool | None = None,
    ) -> None:  # fmt: skip
        if pool is not None and pool not in get_args(Pool):
            raise InputError(f"pool={pool!r} is none of {', '.join(get_args(Pool))}; {nearest(pool, get_args(Pool))}")
        self.task, self.loaded = task, loaded
        self.pool: Pool = pool or task.data.pool or "mean"
        self.normalise = task.data.normalise if normalise is None else normalise
        model = loaded.model.eval()
        self.model, self.tokenizer, self.about = model, loaded.tokenizer, loaded.about
        self.reader, self.engine, self.folder = open_reader(loaded, engine), engine, loaded.folder
        self.bounds = task.bounds(self.backbone.config)

    def __repr__(self) -> str:
        return in_brief(self, self.engine)

    @property
    def backbone(self) -> Any:
        """What reads the texts, without the heads that it may have."""
        return self.reader.backbone if isinstance(self.reader, Headed) else self.reader

    @property
    def width(self) -> int:
        """D of a vector."""
        return int(self.backbone.width)

    @property
    def cut(self) -> int:
        """How many texts so far had more tokens than are read, and lost those at their end."""
        return self.task.counts["cut"]

    def embed(self, texts: str | Iterable[str]) -> Vectors:
        """The vector of a text, or of each of several: the same whatever others stand beside it.

        >>> qkv.load("bert", task="embed").embed(["A dog.", "A cat."]).shape  # (2, 128)
        """
        every = several(texts)
        if self.task.data.lowercase:
            every = [text.lower() for text in every]
        rows = self.task.framed(([ids] for ids in self.tokenizer.encode_batch(every)), self.tokenizer, self.bounds)
        found = self.vectors(rows)
        return found[0] if isinstance(texts, str) else found

    @torch.inference_mode()
    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """The vector of each row of ids, which are read in batches of like length; or all at once by the engine."""
        if isinstance(native := vars(self.backbone).get("native"), Native) and self.pool != "concat":
            found = vectors(native, rows, self.pool)
            return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12) if self.normalise else found
        found = np.empty((len(rows), self.width), np.float32)
        for batch in by_length([len(row) for row in rows], CELLS):
            ids = pad_sequence([torch.tensor(rows[i]) for i in batch], batch_first=True, padding_value=PAD)
            found[batch] = self.read(ids.to(next(self.model.parameters()).device)).float().cpu().numpy()
        return found

    def read(self, ids: Tensor) -> Tensor:
        """Token ids (B, T), padded on the right -> vectors (B, D)."""
        vectors = pooled(self.backbone.encode(ids), ids != PAD, self.pool)
        return F.normalize(vectors, dim=1) if self.normalise else vectors


def nearness(vectors: Vectors, query: Vectors) -> Vectors:
    """The cosines (n,) of vectors (n, D) with one (D,); 0 where a vector is."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    cosines: Vectors = vectors @ query / np.maximum(lengths, np.finfo(np.float32).tiny)
    return cosines
