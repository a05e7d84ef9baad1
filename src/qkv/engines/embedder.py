"""What `qkv.load` gives for a model that embeds: texts in, vectors out; by a folder's own file without torch."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from qkv.decoding.searcher import by_length
from qkv.device import ENGINE
from qkv.engines.native.kept import vectors
from qkv.engines.native.library import Native
from qkv.errors import InputError, nearest
from qkv.folder import Loaded, in_brief
from qkv.text.frames import Frame, Pool
from qkv.text.several import several
from qkv.text.tokenizer import PAD

if TYPE_CHECKING:
    from qkv.models import Model

CELLS = 2**11  # tokens of a batch, padding counted: enough for products, and of like lengths
Vectors = NDArray[np.float32]


class Embedder:
    """`qkv.load(folder).embed(texts)`: float32 (n, D), a row for each text; (D,) for one text alone.

    >>> vectors = qkv.load("bert", task="embed").embed(["A dog.", "A cat."])

    Of a folder that was trained for something else: `qkv.load(folder, task="embed")`. `pool` and `normalise` are the
    folder's own unless given, and without any the mean of all states, as it is.
    """

    def __init__(
        self, loaded: Loaded, *, frame: Frame, most: int, engine: str = ENGINE, pool: Pool | None = None,
        normalise: bool = False, lowercase: bool = False, file: Native | None = None,
    ) -> None:  # fmt: skip
        """`frame` stands around a text, of which at most `most` tokens are read; `engine` is a name of READERS. With a
        `file`, no model need be there."""
        if pool is not None and pool not in get_args(Pool):
            raise InputError(f"pool={pool!r} is none of {', '.join(get_args(Pool))}; {nearest(pool, get_args(Pool))}")
        self.loaded, self.tokenizer, self.about, self.folder = loaded, loaded.tokenizer, loaded.about, loaded.folder
        self.frame, self.bounds, self.engine = frame, {"max_length": most}, engine
        self.pool: Pool = pool or "mean"
        self.normalise, self.lowercase = normalise, lowercase
        self.cut = 0  # texts so far that had more tokens than are read, and lost those at their end
        self.file = None if self.pool == "concat" else file
        if self.file is None:
            self.reader  # noqa: B018  # opened here, or refused

    def __repr__(self) -> str:
        return in_brief(self, self.engine)

    @property
    def model(self) -> "Model":
        return self.loaded.model

    @cached_property
    def reader(self) -> "Model":
        """The model in the form in which it reads, where the file is not enough."""
        from qkv.engines.readers import open_reader

        self.loaded.model.eval()
        return open_reader(self.loaded, self.engine)

    @property
    def backbone(self) -> Any:
        """What reads the texts, without the heads that it may have."""
        return getattr(self.reader, "backbone", self.reader)

    @property
    def native(self) -> Native | None:
        """What reads, if it is the native engine."""
        return self.file if "reader" not in vars(self) else vars(self.backbone).get("native")

    @property
    def width(self) -> int:
        """D of a vector."""
        return self.native.width if self.native else int(self.backbone.width)

    def embed(self, texts: str | Iterable[str]) -> Vectors:
        """The vector of a text, or of each of several: the same whatever others stand beside it.

        >>> qkv.load("bert", task="embed").embed(["A dog.", "A cat."]).shape  # (2, 128)
        """
        every = several(texts)
        if self.lowercase:
            every = [text.lower() for text in every]
        rows, most = list[list[int]](), self.bounds["max_length"]
        for ids in self.tokenizer.encode_batch(every):
            row, is_cut = self.frame.join(self.tokenizer, [ids], most)
            self.cut += is_cut
            rows.append(row)
        found = self.vectors(rows)
        return found[0] if isinstance(texts, str) else found

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """The vector of each row of ids, which are read in batches of like length; or all at once by the engine."""
        if (native := self.native) and self.pool != "concat":
            found = vectors(native, rows, self.pool)
        else:
            found = self.by_torch(rows)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12) if self.normalise else found

    def by_torch(self, rows: Sequence[Sequence[int]]) -> Vectors:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        from qkv.layers import pooled

        found, device = np.empty((len(rows), self.width), np.float32), next(self.model.parameters()).device
        with torch.inference_mode():
            for batch in by_length([len(row) for row in rows], CELLS):
                ids = pad_sequence([torch.tensor(rows[i]) for i in batch], batch_first=True, padding_value=PAD)
                states, real = self.backbone.encode(ids.to(device)), ids.to(device) != PAD
                found[batch] = pooled(states, real, self.pool).float().cpu().numpy()
        return found


def nearness(vectors: Vectors, query: Vectors) -> Vectors:
    """The cosines (n,) of vectors (n, D) with one (D,); 0 where a vector is."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    cosines: Vectors = vectors @ query / np.maximum(lengths, np.finfo(np.float32).tiny)
    return cosines
