"""Recording what attention did, with no flag through any forward."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import nn

from qkv.attention import Maps, recording
from qkv.decoding import Plain, Translator


@contextmanager
def record_attention(watched: Any) -> Iterator[Maps]:
    """Within, every attention of a model (or of a translator's model) also keeps its weights.

    >>> with record_attention(model) as maps:
    ...     model(src, tgt)
    >>> maps["decoder.blocks.1.memory_attention"]          # (B, H, T, S)

    A translator meanwhile searches with the model itself.
    """
    model = watched if isinstance(watched, nn.Module) else watched.model
    searching = searching_with_model(watched) if isinstance(watched, Translator) else nullcontext()
    with recording(model) as maps, searching:
        yield maps


@contextmanager
def searching_with_model(translator: Translator) -> Iterator[None]:
    """Within, a translator searches with its model itself, and not with a faster form that has no such modules."""
    engine, translator.engine = translator.engine, Plain(translator.model)
    try:
        yield
    finally:
        translator.engine = engine
