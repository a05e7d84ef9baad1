"""Ids -> batches for training: rows that are mapped, not loaded; buckets of like length, windows of running text."""

from qkv.data.batches import START, Batch, Mixture, Place, RowsOfPart, Stream, generator, seeds
from qkv.data.buckets import Buckets
from qkv.data.rows import Row, Rows, RowsInMemory, RowsOnDisk, RunningText, Shard, Written, each_row
from qkv.data.windows import Windows
from qkv.data.writing import Counts, GoingOn, PackedRows, id_type, pack, write_packed, write_rows
