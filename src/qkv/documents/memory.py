"""Translation memories: a segment that has been translated before, word for word, is not translated again."""

from collections.abc import Sequence
from pathlib import Path

from qkv.documents.format import Format, Languages
from qkv.documents.segment import Parts, code_of
from qkv.text import read_pairs

Memory = dict[str, tuple[str, str]]  # a text -> its translation, and the name of the file that has it


def read_memory(files: Sequence[Path], languages: Languages) -> Memory:
    """Of several translations of a text, the last; each text without white space around it."""
    source, target = languages.source or None, languages.target or None
    found: Memory = {}
    for file in files:
        for pair in read_pairs([file], source=source, target=target):
            if pair.source.strip() and pair.target.strip():
                found[pair.source.strip()] = pair.target.strip(), file.name
    return found


def exact_matches(document: Format, memory: Memory) -> dict[int, tuple[Parts, str]]:
    """The segments that have a translation already, each with that and with where it is from."""
    found: dict[int, tuple[Parts, str]] = {}
    for number, segment in enumerate(document.segments):
        text = code_of(segment)
        if number in document.apart:
            continue
        if own := document.known.get(text):
            found[number] = own, "another entry of this file"
        elif (core := text.strip()) in memory and all(isinstance(part, str) for part in segment):
            start = text.index(core)
            target, name = memory[core]
            found[number] = [text[:start] + target + text[start + len(core) :]], name
    return found
