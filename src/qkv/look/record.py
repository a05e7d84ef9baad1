"""Recording what attention did, with no flag through any forward."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import nn

from qkv.attention import Maps, recording
from qkv.decoding import Generator, Plain, Translator


@contextmanager
def record_attention(watched: Any) -> Iterator[Maps]:
    """Within, every attention of a model (or of a translator's or generator's) also keeps its weights.

    >>> with record_attention(model) as maps:
    ...     model(src, tgt)
    >>> maps["decoder.blocks.1.memory_attention"]          # (B, H, T, S)

    A translator or generator meanwhile searches with the model itself.
    """
    model = watched if isinstance(watched, nn.Module) else watched.model
    searching = searching_with_model(watched) if isinstance(watched, Translator | Generator) else nullcontext()
    with recording(model) as maps, searching:
        yield maps


@contextmanager
def searching_with_model(watched: Translator | Generator) -> Iterator[None]:
    """Within, it searches with its model itself, and not with a faster form that has no such modules."""
    engine, watched.engine = watched.engine, Plain(watched.model)
    try:
        yield
    finally:
        watched.engine = engine
