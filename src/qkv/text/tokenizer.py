"""The tokenizer: text -> ids of sub-words -> the same text, for any Unicode text.

It is the `tokenizers` library with one fixed frame around a trained model. A space stays inside its token (" the"),
and a character that training never saw becomes its UTF-8 bytes, so nothing is lost and nothing is ever unknown. The
special tokens are entries of the vocabulary and are never read out of text: a typed "</s>" is four plain characters.
"""

import hashlib
import json
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, trainers

from qkv.errors import InputError, nearest
from qkv.files import write_text

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]  # the spelling that the library's byte fallback looks for
RESERVED = SPECIALS + BYTES

# Each alternative is one kind of character, so no piece can spell "<s>" or "<0x41>". None of them can
# backtrack: the time is linear in the text.
PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+"
LONGEST_PIECE = 16  # characters; SentencePiece's max_sentencepiece_length

FRAME: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": " "}]},
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
    "post_processor": None,
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}

Model = dict[str, Any]  # the "model" part of a tokenizer.json
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


class Tokenizer:
    """Text <-> ids. The vocabulary is four special tokens, 256 bytes, then what was learned."""

    def __init__(self, text: str) -> None:
        """`text` is the content of a tokenizer.json that this class wrote."""
        self._text = text
        self._rust = tokenizers.Tokenizer.from_str(text)
        self._size: int = self._rust.get_vocab_size()

    @classmethod
    def train(
        cls, texts: Iterable[str], *, kind: str = "bpe", vocab_size: int = 8000, alphabet: Iterable[str] = ()
    ) -> "Tokenizer":
        """Learn at most `vocab_size` tokens (all of them counted) from `texts`, which are read once.

        The characters of `alphabet` get a token each even if the texts lack them. The same texts give the same
        tokenizer, to the byte.
        """
        if kind not in TOKENIZERS:
            raise InputError(f"unknown tokenizer {kind!r}; {nearest(kind, TOKENIZERS)}")
        wanted = sorted(set(alphabet))
        if any(len(letter) != 1 for letter in wanted):
            raise InputError(f"the alphabet {wanted!r} has an entry that is not one character; give single characters")
        room = vocab_size - len(RESERVED)
        if room < len(wanted) + 2:
            raise InputError(
                f"vocab_size={vocab_size} is too small: {len(RESERVED)} ids are reserved and the alphabet takes "
                f"{len(wanted)}; ask for {len(RESERVED) + len(wanted) + 2} or more"
            )
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as spool:
            rare = _spool(texts, spool, wanted, room // 2)
            model = TOKENIZERS[kind](_unspool(spool, rare), room, wanted)
        return cls(json.dumps({**FRAME, "model": model}, ensure_ascii=False, separators=(",", ":")))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, with no special token around them."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        # The library's own NFC follows an older Unicode, so that it leaves newer scripts as they are.
        composed = [unicodedata.normalize("NFC", text) for text in texts]
        try:
            return [encoding.ids for encoding in self._rust.encode_batch_fast(composed, add_special_tokens=False)]
        except (TypeError, UnicodeEncodeError):
            for text in texts:
                check_unicode(text)
            raise

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids; padding, beginning and end are skipped."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        for ids in rows:
            self._check(ids)
        kept = [[number for number in ids if number > EOS] for ids in rows]
        texts: list[str] = self._rust.decode_batch(kept, skip_special_tokens=False)
        return texts

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What a person reads for each id: a space is shown as ▁, and what cannot be printed is escaped."""
        self._check(ids)
        return [_visible(str(self._rust.id_to_token(number))) for number in ids]

    def vocabulary(self) -> list[str]:
        """The token of each id, as tokenizer.json spells it."""
        return [str(self._rust.id_to_token(number)) for number in range(len(self))]

    def sentence_ends(self) -> list[int]:
        """The ids of the pieces that end a sentence."""
        return [number for number, piece in enumerate(self.pieces(range(len(self)))) if piece.strip() in SENTENCE_ENDS]

    def __len__(self) -> int:
        return self._size

    def to_str(self) -> str:
        """The content of tokenizer.json."""
        return self._text

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of `to_str()`, in hex: two tokenizers with the same fingerprint are the same."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    def save(self, path: Path) -> None:
        write_text(path, self._text)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        try:
            text = path.read_bytes().decode()
            tree = json.loads(text)
        except OSError as error:
            raise InputError(f"cannot read the tokenizer {path}: {error.strerror}; give a tokenizer.json") from None
        except (ValueError, RecursionError):
            raise InputError(f"{path} is damaged: it is not JSON text; copy it again or train anew") from None
        if not _is_ours(tree):
            raise InputError(f"{path} is not a tokenizer that qkv trained; train one on your own texts")
        try:
            return cls(text)
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{path} is damaged: {error}; copy it again or train anew") from None

    def _check(self, ids: Sequence[int]) -> None:
        if len(ids) and not 0 <= min(ids) <= max(ids) < self._size:
            raise InputError(
                f"ids from {min(ids)} to {max(ids)} do not fit a vocabulary of {self._size}; "
                "use the tokenizer that belongs to the model"
            )


def check_unicode(text: str) -> None:
    """Refuse half of a surrogate pair, which a Python string can hold and no file can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start + 1} of {text[:40]!r} is half a surrogate pair, not a Unicode character; "
            "read the text as UTF-8"
        ) from None


def _spool(texts: Iterable[str], spool: Any, wanted: list[str], most: int) -> str:
    """Copy the texts to a file, so that they can be read twice, and return the characters that are left to the bytes.

    At most `most` characters get a token, the frequent ones: half of the room stays for longer pieces.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        check_unicode(text)
        text = unicodedata.normalize("NFC", text)
        counts.update(text)
        spool.write(json.dumps(text, ensure_ascii=False) + "\n")
    if not counts:
        raise InputError("there is no text to train a tokenizer on; give at least one sentence")
    counts.update(dict.fromkeys(wanted, sum(counts.values())))
    ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))
    return "".join(ranked[max(most, len(wanted)) :])


def _unspool(spool: Any, rare: str) -> Iterator[str]:
    spool.seek(0)
    without = dict.fromkeys(map(ord, rare))
    for line in spool:
        yield json.loads(line).translate(without)


def _learn(model: models.Model, trainer: trainers.Trainer, texts: Iterator[str]) -> Model:
    tokenizer = tokenizers.Tokenizer.from_str(
        json.dumps({**FRAME, "model": {"type": "BPE", "vocab": {}, "merges": []}})
    )
    tokenizer.model = model
    tokenizer.train_from_iterator(texts, trainer)
    learned: Model = json.loads(tokenizer.to_str())["model"]
    return learned


def _bpe(texts: Iterator[str], room: int, alphabet: list[str]) -> Model:
    """Byte-pair encoding (Sennrich et al. 2016, section 3.2): merge the most frequent pair, again and again."""
    trainer = trainers.BpeTrainer(
        vocab_size=room,
        show_progress=False,
        initial_alphabet=alphabet,
        max_token_length=LONGEST_PIECE,
    )
    learned = _learn(models.BPE(), trainer, texts)
    pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    vocab = {piece: number for number, piece in enumerate(RESERVED + pieces)}
    return {**learned, "unk_token": SPECIALS[UNK], "byte_fallback": True, "vocab": vocab}


def _unigram(texts: Iterator[str], room: int, alphabet: list[str]) -> Model:
    """Unigram language model (Kudo 2018, section 3.2): of many candidates, keep those that explain the text best."""
    trainer = trainers.UnigramTrainer(
        vocab_size=room,
        show_progress=False,
        initial_alphabet=alphabet,
        special_tokens=[],
        max_piece_length=LONGEST_PIECE,
    )
    scores = dict(_learn(models.Unigram(), trainer, texts)["vocab"])
    # The library adds its float sums in the order of a hash table, and spaces the rarest characters 0.0001 apart in
    # that order too. Rounding, and one score for those characters, make every run the same.
    lowest = min(scores.values())
    near = lowest + 0.0001 * (1 + sum(len(piece) == 1 for piece in scores))
    scores = {
        piece: round(lowest if len(piece) == 1 and score <= near else score, 4) for piece, score in scores.items()
    }
    learned = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    vocab = [[piece, 0.0] for piece in RESERVED] + [[piece, score] for piece, score in learned]
    return {"type": "Unigram", "unk_id": UNK, "vocab": vocab, "byte_fallback": True}


TOKENIZERS: dict[str, Callable[[Iterator[str], int, list[str]], Model]] = {"bpe": _bpe, "unigram": _unigram}


def _is_ours(tree: Any) -> bool:
    try:
        vocab = tree["model"]["vocab"]
        first = list(vocab if isinstance(vocab, dict) else dict(vocab[: len(RESERVED)]))[: len(RESERVED)]
        return first == RESERVED and {key: tree[key] for key in tree if key != "model"} == FRAME
    except (TypeError, ValueError, LookupError):
        return False


def _visible(piece: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in piece.replace(" ", "▁"))
