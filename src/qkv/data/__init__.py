"""Ids on disk -> batches for training: shards that are mapped, not loaded, and batches under a token budget."""

from qkv.data.batches import Batch, Batches, Place, Stream, in_order
from qkv.data.examples import Examples
from qkv.data.shards import Corpus, Shard, Written, write_shards

__all__ = ["Batch", "Batches", "Corpus", "Examples", "Place", "Shard", "Stream", "Written", "in_order", "write_shards"]
