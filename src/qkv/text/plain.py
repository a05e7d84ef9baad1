"""Two plain text files: line i of one is the translation of line i of the other."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.lines import read_lines


def read_plain(source: Path, target: Path) -> Iterator[Pair]:
    src_lines, tgt_lines = read_lines(source), read_lines(target)
    for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines), start=1):
        if src is None or tgt is None:
            shorter, longer = number - 1, number + sum(1 for _ in (tgt_lines if src is None else src_lines))
            counts = (shorter, longer) if src is None else (longer, shorter)
            raise InputError(
                f"{source} has {_count(counts[0])} and {target} has {_count(counts[1])}, but line 1 must translate "
                f"line 1, line 2 line 2 and so on; look for a missing or an extra line, or give two files that "
                f"belong together"
            )
        yield Pair(src, tgt, f"{source} line {number}")


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines:,} lines"
