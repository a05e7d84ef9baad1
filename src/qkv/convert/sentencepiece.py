"""SentencePiece's models (Kudo & Richardson 2018) read by ourselves: the pieces, their scores, and how a text is
normalised; as a tokenizer.json of the `tokenizers` library, so that nothing else is needed to read a text with one.

A translator has one such model for what it reads, and lists of the tokens that it knows, one list for both languages or
one for each: `joined` makes our one tokenizer of them all.
"""

import base64
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qkv.config import Tree
from qkv.convert.adopt import compact, unspelled
from qkv.convert.binary import Bytes
from qkv.convert.charsmap import check_charsmap
from qkv.text.adopted import Adopted
from qkv.text.kinds import BOS, HIDDEN, SPECIALS, UNK, added_tokens, make_frame, numbered
from qkv.text.tokenizer import Tokenizer

SPACE = "▁"
CODE = re.compile(r">>[\w-]{2,20}<<")  # says before a source in which language to write (OPUS-MT)
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # the kinds of pieces
UNIGRAM, BPE = 1, 2  # the kinds of models
# Places in the protobuf messages of sentencepiece_model.proto.
PIECES, TRAINER, NORMALIZER = 1, 2, 3
PIECE, SCORE, KIND = 1, 2, 3
MODEL_TYPE, SUFFIXED, BYTE_FALLBACK = 3, 24, 35
CHARSMAP, ADD_PREFIX, REMOVE_SPACES, ESCAPE = 2, 3, 4, 5


@dataclass
class SentencePiece:
    """One .spm or .model file."""

    name: str
    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # piece, score, kind; by their ids
    kind: int = UNIGRAM
    charsmap: bytes = b""
    adds_prefix: bool = True
    removes_spaces: bool = True
    has_bytes: bool = False

    def spelled(self) -> dict[str, float]:
        """The pieces that a text can be made of, with their scores."""
        kinds = (NORMAL, USER, BYTE) if self.has_bytes else (NORMAL, USER)
        best = max((score for _, score, kind in self.pieces if kind == NORMAL), default=0.0)
        return {  # what a user has named is better than what could stand in its place
            piece: len(piece) * best - 0.1 if kind == USER and self.kind == UNIGRAM else score
            for piece, score, kind in self.pieces if kind in kinds
        }  # fmt: skip


def read_pieces(data: bytes | memoryview, name: str) -> SentencePiece:
    model, whole = SentencePiece(name), Bytes(data, name)
    for number, value in whole.fields():
        if number not in (PIECES, TRAINER, NORMALIZER):
            continue
        if isinstance(value, int):
            raise whole.damaged(f"a number stands in the place of part {number}")
        inside = dict(Bytes(value, name).fields())
        if number == PIECES:
            model.pieces.append(read_piece(inside, whole))
        elif number == TRAINER:
            model.kind, model.has_bytes = plain(inside, MODEL_TYPE, UNIGRAM), bool(plain(inside, BYTE_FALLBACK, 0))
            if plain(inside, SUFFIXED, 0):
                raise whole.damaged("it puts spaces behind words, which qkv does not")
        else:
            table = inside.get(CHARSMAP, b"")
            model.charsmap = b"" if isinstance(table, int) else bytes(table)
            if model.charsmap:
                check_charsmap(model.charsmap, whole)
            model.adds_prefix = bool(plain(inside, ADD_PREFIX, 1))
            model.removes_spaces = bool(plain(inside, REMOVE_SPACES, 1))
    words = [piece for piece, _, _ in model.pieces]
    if model.kind not in (UNIGRAM, BPE) or not model.spelled():
        raise whole.damaged("it holds no pieces of the kinds unigram or bpe")
    if len({*words}) < len(words):
        raise whole.damaged("it holds a piece twice")
    return model


def read_piece(inside: Mapping[int, int | memoryview], whole: Bytes) -> tuple[str, float, int]:
    text, score = inside.get(PIECE, 0), inside.get(SCORE, memoryview(b"\0\0\0\0"))
    if isinstance(text, int) or isinstance(score, int) or len(score) != 4:
        raise whole.damaged("one of its pieces cannot be read")
    try:
        piece, number = bytes(text).decode(), float(struct.unpack("<f", score)[0])
    except UnicodeDecodeError:
        raise whole.damaged("one of its pieces is no text") from None
    if not piece or not math.isfinite(number):
        raise whole.damaged(f"its piece {piece[:40]!r} has the score {number}")
    return piece, number, plain(inside, KIND, NORMAL)


def plain(inside: Mapping[int, int | memoryview], number: int, usual: int) -> int:
    value = inside.get(number, usual)
    return value if isinstance(value, int) else usual


# -- as our tokenizer --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Joined:
    """Our tokenizer, and for each of its ids those of a translator: `source` of what it reads, where a token that it
    does not know is its <unk>, and `target` of what it writes; -1 where it has none."""

    tokenizer: Tokenizer
    source: list[int]
    target: list[int]

    @property
    def is_shared(self) -> bool:
        """Whether both languages have one list of tokens."""
        return all(one == other or other < 0 for one, other in zip(self.source, self.target, strict=True))


def joined(
    model: SentencePiece, source: Sequence[str], target: Sequence[str], unk: str, played: Mapping[str, str]
) -> Joined:
    """`source` and `target` are the translator's tokens by their ids; `played` says which of them, by its name, plays
    the part of <s>, </s> or <pad>; `unk` that of <unk>.

    A token that the pieces do not spell, as one of the other language alone, is hidden.
    """
    parts = {**played, SPECIALS[UNK]: unk}
    rows, columns = numbered(list(source)), numbered(list(target))
    spelled = {piece: score for piece, score in model.spelled().items() if piece not in SPECIALS}
    words = [word for word in dict.fromkeys((*source, *target, *spelled)) if word not in parts.values()]
    names = [word if word in spelled or CODE.fullmatch(word) else HIDDEN + word for word in words]
    theirs = [parts.get(name, "") for name in SPECIALS] + words
    tree = unspelled(as_tree(model, SPECIALS + names, spelled), model.name)
    written = [columns.get(word, -1) for word in theirs]
    written[BOS] = columns.get(theirs[BOS], columns.get(unk, -1))
    read = [rows.get(word, rows.get(unk, -1)) for word in theirs]
    return Joined(Tokenizer(compact(tree), Adopted(tree)), read, written)


def as_tree(model: SentencePiece, names: list[str], spelled: Mapping[str, float]) -> Tree:
    """A tokenizer.json of all tokens by their ids, of which a text is made of those that are spelled."""
    normalizers: list[Tree] = []
    if model.charsmap:
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(model.charsmap).decode()})
    if model.removes_spaces:
        normalizers += [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
    scheme = "always" if model.adds_prefix else "never"
    across = any(SPACE in piece[1:].lstrip(SPACE) for piece in spelled)  # a piece of several words
    space = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme}
    bytes_first = [{"type": "ByteFallback"}] * model.has_bytes
    hidden = {"type": "Replace", "pattern": {"String": HIDDEN}, "content": ""}
    frame = make_frame(
        {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        {**space, "split": not across}, hidden, *bytes_first, {**space, "split": True},
    )  # fmt: skip
    own = [piece for piece, _, kind in model.pieces if kind == USER and piece in spelled and model.kind == BPE]
    plain_token = added_tokens([""], 0)[0] | {"special": False}
    users = [{**plain_token, "id": names.index(piece), "content": piece} for piece in own]
    codes = [(number, name) for number, name in enumerate(names) if CODE.fullmatch(name)]
    users += [{**plain_token, "id": number, "content": name, "rstrip": True} for number, name in codes]
    added = [*added_tokens(SPECIALS, 0), *sorted(users, key=lambda token: int(token["id"]))]
    return {**frame, "added_tokens": added, "model": inner(model, names, spelled)}


def inner(model: SentencePiece, names: list[str], spelled: Mapping[str, float]) -> Tree:
    """The "model" of a tokenizer.json. Of byte-pairs, the merges follow from the scores: the best piece first."""
    if model.kind == UNIGRAM:
        vocab = [[name, spelled.get(name, 0.0)] for name in names]
        return {"type": "Unigram", "unk_id": UNK, "vocab": vocab, "byte_fallback": model.has_bytes}
    numbers, merges = {piece: number for number, (piece, _, _) in enumerate(model.pieces)}, []
    for piece, score in spelled.items():
        pairs = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        known = [pair for pair in pairs if pair[0] in spelled and pair[1] in spelled]
        merges += [(-score, [numbers[part] for part in pair], pair) for pair in known]
    return {
        "type": "BPE", "dropout": None, "unk_token": SPECIALS[UNK], "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": model.has_bytes, "ignore_merges": False,
        "vocab": numbered(names), "merges": [list(pair) for _, _, pair in sorted(merges)],
    }  # fmt: skip
