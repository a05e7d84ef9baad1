"""What families of other people's models share: their folder and their names as ours, their tokenizer with our ids."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.errors import InputError
from qkv.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

# Theirs and ours.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish", "gelu_new": "gelu_tanh",
               "gelu_pytorch_tanh": "gelu_tanh"}  # fmt: skip


@dataclass(frozen=True)
class Converted:
    """Their folder as ours: a model by its name and settings, its weights, the tokenizer, and what is known of it."""

    architecture: str
    config: Any
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    about: dict[str, Any]


def rename(name: str, names: Sequence[tuple[str, str]]) -> str | None:
    """Our name of their weight, by the first pattern that fits all of it; None if none does."""
    for pattern, ours in names:
        if found := re.fullmatch(pattern, name):
            return found.expand(ours)
    return None


class Foreign(Tokenizer):
    """Text <-> ids by a tokenizer that others trained; our id i is their id rows[i].

    Some of our special ids may stand for one of theirs: Marian begins a translation with its padding.
    """

    def __init__(self, text: str, rows: list[int]) -> None:
        super().__init__(text)
        self._rust.no_padding()
        self._rust.no_truncation()
        self._rows, self._size = rows, len(rows)
        self._ours = {theirs: ours for ours, theirs in reversed(list(enumerate(rows)))}

    @classmethod
    def open(cls, folder: Path, rows: list[int]) -> "Foreign":
        """The tokenizer.json of a folder, if its ids are among `rows` and it puts nothing but the end behind a text."""
        path = folder / "tokenizer.json"
        if not path.exists():
            raise InputError(
                f"{folder} has no tokenizer.json, which is the only kind of tokenizer that is read (OPUS-MT's own "
                "folders have none); build one with transformers' PreTrainedTokenizerFast and save it there"
            )
        try:
            tokenizer = cls(path.read_bytes().decode(), rows)
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{path} is damaged: {' '.join(str(error).split())}; copy it again") from None
        beyond = tokenizer._rust.get_vocab_size() - 1
        if beyond not in tokenizer._ours and beyond >= len(set(rows)):
            raise InputError(
                f"{path} has {beyond + 1} tokens but the model has {len(set(rows))}; copy the whole model folder again"
            )
        around = tokenizer._rust.encode("a").ids[len(tokenizer._rust.encode("a", add_special_tokens=False).ids) :]
        if around != [rows[EOS]]:
            raise InputError(
                f"{path} puts the ids {around} behind a text and not the end {rows[EOS]} alone, which is all that qkv "
                "puts there; use a folder of a translation model"
            )
        return tokenizer

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._ours[number] for number in ids] for ids in super().encode_batch(texts)]

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        for ids in rows:
            self._check(ids)
        kept = [[self._rows[number] for number in ids if number > UNK] for ids in rows]
        return self._rust.decode_batch(kept, skip_special_tokens=True)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        self._check(ids)
        return [self._rust.id_to_token(self._rows[number]) or "" for number in ids]

    def vocabulary(self) -> list[str]:
        """Their tokens; our ids that stand for none of theirs, or for one that another id has, are named by number."""
        words = [self._rust.id_to_token(theirs) or f"<id {theirs}>" for theirs in self._rows]
        for ours in (PAD, UNK, BOS):
            if words[ours] in words[:ours] + words[ours + 1 :]:
                words[ours] = f"<qkv {ours}>"
        return words
