"""The pairs that a training run has set aside for validation: a model folder keeps them."""

from pathlib import Path

from qkv.data.shards import Corpus
from qkv.text.tokenizer import Tokenizer


def validation_pairs(folder: Path, tokenizer: Tokenizer, most: int | None = None) -> list[tuple[str, str]]:
    """The first `most` validation pairs of the run that made a model folder, as text; none if it keeps no run."""
    path = folder / "training" / "data" / "valid"
    if not path.exists():
        return []
    shard = Corpus.open(path, tokenizer.fingerprint).shard(0)
    rows = range(len(shard))[:most]
    sides = (tokenizer.decode_batch([ids(row).tolist() for row in rows]) for ids in (shard.source, shard.target))
    return list(zip(*sides, strict=True))
