"""Whose a tokenizer.json is: of a kind that we train, by the names in TOKENIZERS, or other people's that was adopted
(see convert.adopt)."""

import json
from typing import Any, ClassVar

from qkv.text.kinds import (
    BPE,
    BYTE_OF,
    HIDDEN,
    SPECIALS,
    ByteBPE,
    Characters,
    Kind,
    Tree,
    Unigram,
    WordPiece,
    added_tokens,
    numbered,
)
from qkv.text.words import Words

# By the name that settings and `Tokenizer.train` take.
TOKENIZERS: dict[str, type[Kind]] = {
    "bpe": BPE, "unigram": Unigram, "byte_bpe": ByteBPE, "wordpiece": WordPiece, "characters": Characters,
    "words": Words,
}  # fmt: skip
KINDS = (
    BPE(), Unigram(), ByteBPE(), WordPiece(), WordPiece(lowercase=False), Characters(), Words(), Words(signs=False)
)  # fmt: skip


class Adopted(Kind):
    """Other people's: all is theirs but the ids and the names of the special tokens. The first four are ours and stand
    among the added tokens, where no kind of ours has them; what theirs put around a text is gone."""

    reserved = SPECIALS
    aliases: ClassVar[dict[str, str]] = {"[MASK]": "<mask>"}

    def __init__(self, tree: Tree) -> None:
        model = tree["model"]
        self.inside = model.get("continuing_subword_prefix") or ""  # before what goes on with a word
        self.end = model.get("end_of_word_suffix") or ""
        self.space = "" if "Prepend" in json.dumps(tree["normalizer"]) else " "
        self.is_bytes = "ByteLevel" in json.dumps(tree["decoder"])
        self.is_whole = model["type"] == "WordLevel"
        self.hides = any(token.startswith(HIDDEN) for token in map(str, numbered_tokens(model)))

    def spell(self, token: str) -> str:
        token = token.removeprefix(HIDDEN)
        if self.is_bytes:
            return ByteBPE().spell(token) if BYTE_OF.keys() >= set(token) else token
        if self.end and token.endswith(self.end):
            return token.removesuffix(self.end) + " "
        return token.replace("▁", " ")  # SentencePiece's sign for a space

    def letters(self, token: str) -> bytes:
        if self.is_bytes and BYTE_OF.keys() >= set(token):
            return ByteBPE().letters(token)
        return super().letters(token.removeprefix(HIDDEN).removeprefix(self.inside).removesuffix(self.end))

    def begins(self, token: str) -> bool:
        if self.inside:
            return not token.startswith(self.inside)
        return bool(self.is_whole or self.end) or super().begins(token)


def numbered_tokens(model: Tree) -> list[str]:
    """The tokens of the "model" of a tokenizer.json, by their ids."""
    return [entry if isinstance(entry, str) else entry[0] for entry in model["vocab"]]


def kind_of(tree: Any) -> Kind | None:
    """The kind of a tokenizer.json that `Tokenizer.train` or `adopt` wrote, or None if others did."""
    try:
        model, added = tree["model"], tree["added_tokens"]
        names = [token["content"] for token in added]
        vocab = model["vocab"] if isinstance(model["vocab"], dict) else dict(model["vocab"])
        tokens = list(vocab)
        for kind in KINDS:
            whole = {**kind.frame, "added_tokens": added_tokens(names, len(kind.reserved)), "model": model}
            first = kind.reserved + names
            if model["type"] == kind.type and tree == whole and tokens[: len(first)] == first:
                return kind
        numbers = numbered(tokens)
        is_bare = not any(tree[part] for part in ("truncation", "padding", "post_processor"))
        fits = len(model["vocab"]) == len(numbers) and model["vocab"] in (numbers, [*map(list, vocab.items())])
        if is_bare and fits and added[: len(SPECIALS)] == added_tokens(SPECIALS, 0):
            return Adopted(tree) if all(numbers[token["content"]] == token["id"] for token in added) else None
    except (TypeError, ValueError, LookupError):
        pass
    return None
