"""The table by which SentencePiece normalises letters (its "precompiled charsmap"): looked through before the library
reads it, which would end the process at a place that is not there.

It is a trie of the bytes of what is replaced, as a double array (Aoe 1989, in the layout of Darts), and behind it the
texts that take its place, each with a zero byte at its end.
"""

import numpy as np

from qkv.convert.binary import Bytes

DEEPEST = 64  # bytes of what is replaced
LEAF, LABEL, VALUE = 1 << 8, (1 << 31) | 0xFF, (1 << 31) - 1  # bits of a unit


def check_charsmap(data: bytes, whole: Bytes) -> None:
    """Walk through all of the trie, a byte further at a time, and refuse a unit or a text that lies outside."""
    inside = Bytes(data, whole.name)
    size = inside.number("I")
    if size % 4 or not size:
        raise whole.damaged("its table of letters has no trie")
    units = np.frombuffer(inside.take(size), "<u4").astype(np.int64)
    texts = bytes(inside.data[inside.at :])
    try:
        texts.decode()
    except UnicodeDecodeError:
        raise whole.damaged("its table of letters holds what is no text") from None
    labels = np.arange(1, 256)
    nodes = np.array([offset(units[:1])[0]])
    for _ in range(DEEPEST):
        if not len(nodes):
            return
        if (nodes | 0xFF).max() >= len(units):
            raise whole.damaged("its table of letters points to what is not there")
        children = nodes[:, None] ^ labels  # (N, 255)
        children = children[(units[children] & LABEL) == labels]
        found = units[children]
        nodes = children ^ offset(found)
        if len(nodes) and nodes.max() >= len(units):
            raise whole.damaged("its table of letters points to what is not there")
        for value in units[nodes[(found & LEAF) != 0]] & VALUE:
            if value >= len(texts) or texts[value] & 0xC0 == 0x80 or 0 not in texts[value : value + 1000]:
                raise whole.damaged("its table of letters points to a text that is not there")
        nodes = np.unique(nodes)  # ends that words have in common are one
    raise whole.damaged("its table of letters has no end")


def offset(units: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return (units >> 10) << ((units & (1 << 9)) >> 6)
