"""The kinds of tokenizer: how each writes text with tokens, and how it learns them.

A kind is what stands around a trained model of the `tokenizers` library in a tokenizer.json (the frame: normaliser,
pre-tokenizer, decoder), and the way that such a model is learned.
"""

import itertools
import json
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import tokenizers
from tokenizers import models, trainers

from qkv.errors import InputError
from qkv.text.normalise import check_unicode

Tree = dict[str, Any]  # a tokenizer.json, or a part of one
NOTHING: Tree = {"type": "BPE", "vocab": {}, "merges": []}  # a model that knows no token

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]  # the spelling that the library's byte fallback looks for
RESERVED = SPECIALS + BYTES
HIDDEN = "\ufffe"  # before tokens that are only written: read for what would be unknown. No text has it: no character

# Each alternative is one kind of character, so no piece can spell "<s>" or "<0x41>". None of them can
# backtrack: the time is linear in the text.
PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+"
LONGEST_PIECE = 16  # characters; SentencePiece's max_sentencepiece_length


def make_frame(normalizer: Tree | None, pre_tokenizer: Tree | None, *decoders: Tree) -> Tree:
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": list(decoders)},
    }  # fmt: skip


def printable_bytes() -> list[str]:
    """One printable character for each byte, as GPT-2 writes them in its vocabulary: "A" is itself, a space is "Ġ"."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


PRINTABLE = printable_bytes()
BYTE_OF = {character: byte for byte, character in enumerate(PRINTABLE)}


class Kind:
    """What the kinds have in common; by itself none."""

    type: ClassVar[str]  # of the model in tokenizer.json
    reserved: ClassVar[list[str]] = RESERVED  # the tokens of the first ids
    frame: Tree
    is_composed = False  # whether text is put into its composed form (NFC) first
    prefix = ""  # what the frame puts before a text
    aliases: ClassVar[dict[str, str]] = {}  # other names of special tokens
    space = " "  # what has to be put before a word that is not the first
    hides = False  # whether there are hidden tokens
    has_words = True  # whether the space before a word belongs to it
    parts_at_spaces = False  # whether the ids of words with single spaces between them are those of each word alone

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        """The "model" of a tokenizer.json: the reserved tokens, and at most `room` that are learned."""
        raise NotImplementedError

    def compose(self, text: str) -> str:
        # The library's own NFC follows an older Unicode, so that it leaves newer scripts as they are.
        return unicodedata.normalize("NFC", text) if self.is_composed else text

    def spell(self, token: str) -> str:
        """What a token writes, for people."""
        return token

    def begins(self, token: str) -> bool:
        """Whether a word begins with a token."""
        return not self.has_words or self.spell(token)[:1].isspace()

    def letters(self, token: str) -> bytes:
        """The UTF-8 of a token inside its word, without the space before it."""
        is_byte = token.startswith("<0x") and token in BYTES
        return bytes([BYTES.index(token)]) if is_byte else self.spell(token).lstrip(" ").encode()


class Spaced(Kind):
    """A space stays inside the token of the word that it precedes, and one is put before each text; a character that
    training never saw becomes its bytes."""

    is_composed = True
    parts_at_spaces = True
    prefix, space = " ", ""
    frame = make_frame(
        {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": " "}]},
        {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    )

    def frequent(self, texts: Iterable[str], alphabet: list[str], most: int) -> Iterator[str]:
        """The texts without their rare characters, which are left to the bytes: at most `most` get a token, so that
        half of the room stays for longer pieces. To be counted first, the texts go through a file."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as spool:
            counts: Counter[str] = Counter()
            for text in map(self.compose, checked(texts)):
                counts.update(text)
                spool.write(json.dumps(text, ensure_ascii=False) + "\n")
            rare = dict.fromkeys(map(ord, ranked(counts, alphabet)[max(most, len(alphabet)) :]))
            spool.seek(0)
            yield from (json.loads(line).translate(rare) for line in spool)


class BPE(Spaced):
    """Byte-pair encoding (Sennrich et al. 2016, section 3.2): merge the most frequent pair, again and again."""

    type = "BPE"

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        trainer = trainers.BpeTrainer(
            vocab_size=room, show_progress=False, initial_alphabet=alphabet, max_token_length=LONGEST_PIECE
        )
        learned = train(self.frame, models.BPE(), trainer, self.frequent(texts, alphabet, room // 2))
        vocab = numbered(reserved + by_id(learned))
        return {**learned, "unk_token": SPECIALS[UNK], "byte_fallback": True, "vocab": vocab}


class Unigram(Spaced):
    """Unigram language model (Kudo 2018, section 3.2): of many candidates, keep those that explain the text best."""

    type = "Unigram"

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        trainer = trainers.UnigramTrainer(
            vocab_size=room, show_progress=False, initial_alphabet=alphabet, special_tokens=[],
            max_piece_length=LONGEST_PIECE,
        )  # fmt: skip
        scores = dict(train(self.frame, models.Unigram(), trainer, self.frequent(texts, alphabet, room // 2))["vocab"])
        # The library adds its float sums in the order of a hash table, and spaces the rarest characters 0.0001 apart in
        # that order too. Rounding, and one score for those characters, make every run the same.
        lowest = min(scores.values())
        near = lowest + 0.0001 * (1 + sum(len(piece) == 1 for piece in scores))
        scores = {
            piece: round(lowest if len(piece) == 1 and score <= near else score, 4) for piece, score in scores.items()
        }
        learned = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
        vocab = [[piece, 0.0] for piece in reserved] + [[piece, score] for piece, score in learned]
        return {"type": "Unigram", "unk_id": UNK, "vocab": vocab, "byte_fallback": True}


class ByteBPE(Kind):
    """GPT-2 (Radford et al. 2019, section 2.2): BPE over the bytes of UTF-8, within words as its pattern finds them."""

    type = "BPE"
    reserved = SPECIALS + PRINTABLE
    frame = make_frame(
        None,
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    )

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        if alphabet:
            raise InputError("byte_bpe writes every character with its bytes and takes no alphabet; leave it out")
        trainer = trainers.BpeTrainer(vocab_size=room + len(PRINTABLE), show_progress=False, initial_alphabet=PRINTABLE)
        learned = train(self.frame, models.BPE(), trainer, checked(texts))
        return {**learned, "vocab": numbered(reserved + [piece for piece in by_id(learned) if piece not in BYTE_OF])}

    def spell(self, token: str) -> str:
        """Bytes that are no whole character are written as <0xE4>."""
        text = bytes(BYTE_OF[character] for character in token).decode(errors="surrogateescape")
        return "".join(BYTES[ord(c) - 0xDC00] if "\udc80" <= c <= "\udcff" else c for c in text)

    def letters(self, token: str) -> bytes:
        return bytes(BYTE_OF[character] for character in token).lstrip(b" ")


class WordPiece(Kind):
    """BERT's (Devlin et al. 2019, section 3): words are taken apart greedily, the longest piece first; "##" marks the
    pieces that go on with a word. Not lossless: spaces and, in lower case, accents are gone, and a word with a letter
    that training never saw is <unk>.

    Differs: the pieces are learned by merging frequent pairs, as in the `tokenizers` library; BERT's learner was never
    published.
    """

    type = "WordPiece"
    reserved = SPECIALS

    def __init__(self, *, lowercase: bool = True) -> None:
        self.frame = make_frame(
            {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
             "lowercase": lowercase},
            {"type": "BertPreTokenizer"},
            {"type": "WordPiece", "prefix": "##", "cleanup": True},
        )  # fmt: skip

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        words, letters = count_words({**self.frame, "model": NOTHING}, texts)
        inner = {*alphabet, *(letter for word in words for letter in word[1:])}
        forms = (
            form for letter in ranked(letters, alphabet) for form in (letter, f"##{letter}")[: 1 + (letter in inner)]
        )
        kept = set(itertools.islice(forms, max(room // 2, 2 * len(alphabet))))
        # In the library the order of the letters inside words, which decides between pairs of equal count, is that of a
        # hash table; unless they are there before.
        trainer = trainers.BpeTrainer(
            vocab_size=room, show_progress=False, initial_alphabet=alphabet, continuing_subword_prefix="##",
            special_tokens=sorted(form for form in kept if len(form) > 1),
        )  # fmt: skip
        known = (word for word in words if word[0] in kept and kept.issuperset(f"##{letter}" for letter in word[1:]))
        split = {**self.frame, "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}}
        learned = train(split, models.BPE(), trainer, (" ".join([word] * words[word]) for word in known))
        vocab = numbered(reserved + by_id(learned))
        return {
            "type": "WordPiece", "unk_token": SPECIALS[UNK], "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        }  # fmt: skip

    def begins(self, token: str) -> bool:
        return not token.startswith("##")

    def letters(self, token: str) -> bytes:
        return token.removeprefix("##").encode()


class Characters(Kind):
    """Each character is a token: all of the text's, or the most frequent that have room; others become their bytes."""

    type = "BPE"
    frame = make_frame(None, None, {"type": "ByteFallback"}, {"type": "Fuse"})
    has_words = False

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        counts: Counter[str] = Counter()
        for text in checked(texts):
            counts.update(text)
        vocab = numbered(reserved + ranked(counts, alphabet)[:room])
        model = json.loads(tokenizers.Tokenizer(models.BPE()).to_str())["model"]
        return {**model, "unk_token": SPECIALS[UNK], "byte_fallback": True, "vocab": vocab}


def added_tokens(names: Sequence[str], first: int) -> list[Tree]:
    """Those of a tokenizer.json: special tokens with names of their own, in the ids from `first` on."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": number, "content": name, **flags} for number, name in enumerate(names, start=first)]


# -- learning: texts are checked and counted, and the library trains a model on them -----------------------------------


def checked(texts: Iterable[str]) -> Iterator[str]:
    """The texts, of which one at least must have a character."""
    is_empty = True
    for text in texts:
        check_unicode(text)
        is_empty = is_empty and not text
        yield text
    if is_empty:
        raise InputError("there is no text to train a tokenizer on; give at least one sentence")


def count_words(tree: Tree, texts: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """The words of some texts, as a tokenizer.json parts them, and their letters."""
    rust = tokenizers.Tokenizer.from_str(json.dumps(tree))
    words, letters = Counter[str](), Counter[str]()
    for text in checked(texts):
        normalised = rust.normalizer.normalize_str(text) if rust.normalizer else text
        words.update(word for word, _ in rust.pre_tokenizer.pre_tokenize_str(normalised))
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    return words, letters


def ranked(counts: Counter[str], alphabet: list[str]) -> list[str]:
    """Characters, the frequent ones first; before all, those of the alphabet."""
    counts.update(dict.fromkeys(alphabet, counts.total()))
    return sorted(counts, key=lambda letter: (-counts[letter], letter))


def train(frame: Tree, model: models.Model, trainer: trainers.Trainer, texts: Iterator[str]) -> Tree:
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps({**frame, "model": NOTHING}))
    tokenizer.model = model
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())["model"]


def by_id(model: Tree) -> list[str]:
    """The tokens of a model in the order of their ids."""
    return sorted(model["vocab"], key=model["vocab"].__getitem__)


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}
