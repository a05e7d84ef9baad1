"""The tokenizer: text -> ids -> text, by a trained vocabulary of one of several kinds.

It is the `tokenizers` library with a fixed frame around a trained model, see kinds.py. The special tokens are entries
of the vocabulary and are never read out of text unless that is asked for: a typed "</s>" is four plain characters.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import tokenizers

from qkv.config import build
from qkv.errors import InputError
from qkv.files import read_text, write_text
from qkv.text.adopted import TOKENIZERS, kind_of
from qkv.text.growing import grow
from qkv.text.kinds import BOS, BPE, EOS, HIDDEN, PAD, RESERVED, SPECIALS, UNK, ByteBPE, Kind, added_tokens
from qkv.text.normalise import check_unicode
from qkv.text.words import Words

__all__ = ["BOS", "EOS", "PAD", "RESERVED", "SPECIALS", "TOKENIZERS", "UNK", "Tokenizer"]

# No token that is learned can be spelled so: every kind parts letters from brackets.
SPECIAL = re.compile(r"<[^\s<>]*[^\W_][^\s<>]*>|\[[^\s\[\]]*[^\W_][^\s\[\]]*\]")
MOST_WORDS, LONGEST_WORD = 2**17, 30  # words whose ids are kept, some 40 MB; and their letters
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


class Tokenizer:
    """Text <-> ids. The vocabulary is four special tokens and mostly 256 bytes, then specials with names of their own,
    then what was learned."""

    def __init__(self, text: str, kind: Kind) -> None:
        """`text` is the content of a tokenizer.json of that kind."""
        self._text = text
        self.kind = kind
        self._rust = tokenizers.Tokenizer.from_str(text)
        self._rust.encode_special_tokens = True  # as plain text: "<mask>" is typed by somebody
        self._size: int = self._rust.get_vocab_size()
        added = self._rust.get_added_tokens_decoder()
        named = {token.content: number for number, token in added.items() if token.special and number > UNK}
        self._named = named | {alias: named[name] for alias, name in kind.aliases.items() if name in named}
        self._silent = {PAD, BOS, EOS, *self._named.values()}
        self._words: dict[str, list[int]] = {}  # the ids of words that have been seen

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: str = "bpe",
        vocab_size: int = 8000,
        alphabet: Iterable[str] = (),
        specials: Sequence[str] = (),
    ) -> "Tokenizer":
        """Learn at most `vocab_size` tokens (all of them counted) from `texts`, which are read once.

        `kind` is a name of TOKENIZERS, as "bpe" or "wordpiece(lowercase=False)". The characters of `alphabet` get a
        token each even if the texts lack them. `specials` are names like "<mask>" or "[SEP]", whose ids follow the
        reserved ones. The same texts give the same tokenizer, to the byte.
        """
        chosen = build(TOKENIZERS, kind)
        wanted = sorted(set(alphabet))
        if any(len(letter) != 1 for letter in wanted):
            raise InputError(f"the alphabet {wanted!r} has an entry that is not one character; give single characters")
        for name in specials:
            if not SPECIAL.fullmatch(name) or [*chosen.reserved, *specials].count(name) > 1:
                raise InputError(f"{name!r} cannot name a special token; give different names like <mask> or [MASK]")
        reserved = [*chosen.reserved, *specials]
        room = vocab_size - len(reserved)
        if room < len(wanted) + 2:
            raise InputError(
                f"vocab_size={vocab_size} is too small: {len(reserved)} ids are reserved and the alphabet takes "
                f"{len(wanted)}; ask for {len(reserved) + len(wanted) + 2} or more"
            )
        model = chosen.learn(texts, reserved, room, wanted)
        tree = {**chosen.frame, "added_tokens": added_tokens(specials, len(chosen.reserved)), "model": model}
        return cls(json.dumps(tree, ensure_ascii=False, separators=(",", ":")), chosen)

    def grow(self, texts: Iterable[str], size: int) -> "Tokenizer":
        """A tokenizer with at most `size` tokens: those of the new texts are added to the old ones, which stay."""
        if not isinstance(self.kind, BPE | ByteBPE):
            raise InputError("only a vocabulary of the kind bpe or byte_bpe can grow; train a new one for these texts")
        if size <= len(self):
            raise InputError(f"the vocabulary has {len(self)} tokens and cannot grow to {size}; ask for more")
        tree = grow(json.loads(self._text), self.kind, map(self.kind.compose, texts), size)
        return type(self)(json.dumps(tree, ensure_ascii=False, separators=(",", ":")), self.kind)

    @property
    def specials(self) -> dict[str, int]:
        """The ids of the special tokens by name: the four that every vocabulary has, then those named in training."""
        return {name: number for number, name in enumerate(SPECIALS)} | self._named

    def special(self, name: str) -> int:
        """The id of a special token."""
        if name not in self.specials:
            raise InputError(
                f"this vocabulary has no {name}, only {', '.join(self.specials)}; train one with it among its specials"
            )
        return self.specials[name]

    def mark(self, language: str) -> list[int]:
        """The special token that says in which language to write, <de>, if the vocabulary has one: before a source, and
        before what is written."""
        name = f"<{language}>"
        return [self._named[name]] if name in self._named else []

    def encode(self, text: str, *, specials: bool | Collection[str] = False) -> list[int]:
        """The ids of a text, with no special token around them.

        With `specials`, the name of a special that was given in training is read as that token, and takes with it the
        space before it: "A <mask> dog" has the ids of "A dog" and, between them, that of <mask>. Or just some of them.
        """
        read = [name for name in self._named if specials is True or (specials and name in specials)]
        if not read:
            return self.encode_batch([text])[0]
        names = "|".join(map(re.escape, read))
        space = " ?" if self.kind.has_words else ""
        parts = re.split(f"{space}({names})", self.kind.prefix + self.kind.compose(text))
        rows = [encoding.ids for encoding in self._inside.encode_batch_fast(parts[::2], add_special_tokens=False)]
        found = rows[0]
        for name, row in zip(parts[1::2], rows[1:], strict=True):
            found += [self._named[name], *row]
        return found

    @cached_property
    def _inside(self) -> tokenizers.Tokenizer:
        """The tokenizer of a part of a text, before which nothing is put."""
        if not self.kind.prefix:
            return self._rust
        inside = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(self._text), "normalizer": None}))
        inside.encode_special_tokens = True  # names that are not asked for
        return inside

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of words, each taken by itself, and for each id the number of its word. Every word has an id."""
        if isinstance(self.kind, Words):
            for word in words:
                check_unicode(word)
            rows = [[self._ids[token] for token in self.kind.tokens(word, self._ids)] for word in words]
        else:
            rows = self.encode_batch([f"{self.kind.space if i else ''}{word}" for i, word in enumerate(words)])
        rows = [row or [UNK] for row in rows]
        return [number for row in rows for number in row], [i for i, row in enumerate(rows) for _ in row]

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text, and for each where it begins and ends in the text, spaces before a word left out."""
        ids, spans = self.encode(text), self._rust.encode(text, add_special_tokens=False).offsets
        if len(ids) != len(spans):  # in scripts that the library's older Unicode does not compose
            spans = self._rust.encode(self.kind.compose(text)).offsets
        spaces = [len(text[start:end]) - len(text[start:end].lstrip()) for start, end in spans]
        return ids, [(min(start + space, end), end) for (start, end), space in zip(spans, spaces, strict=True)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        composed = [self.kind.compose(text) for text in texts]
        try:
            return self._by_words(composed) if self.kind.parts_at_spaces else self._encoded(composed)
        except (TypeError, UnicodeEncodeError):
            for text in texts:
                check_unicode(text)
            raise

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        rows = [encoding.ids for encoding in self._rust.encode_batch_fast(texts, add_special_tokens=False)]
        if self.kind.hides:
            rows = [self._known(text) if UNK in row else row for text, row in zip(texts, rows, strict=True)]
        return rows

    def _known(self, text: str) -> list[int]:
        """The ids of a text in which what would be unknown is looked up among the hidden tokens, as other programs do
        that part a text first and number its parts then."""
        found, step = self._rust.encode(text, add_special_tokens=False), self._rust.normalizer
        spans = [text[start:end] for start, end in found.offsets]
        names = [HIDDEN + (step.normalize_str(span) if step else span) for span in spans]
        return [self._ids.get(name, UNK) if i == UNK else i for i, name in zip(found.ids, names, strict=True)]

    def _by_words(self, texts: list[str]) -> list[list[int]]:
        """The same, each word encoded once: a few thousand words are most of any text. Texts with other white space
        than single spaces, and those of scripts without spaces, are encoded as they are."""
        parted = [text.split(" ") for text in texts]
        known = self._words
        if len(known) > MOST_WORDS:
            self._words = known = {}  # another one: the old one may be in use in another thread
        new = set(chain.from_iterable(parted)).difference(known)
        plain = [word for word in new if len(word) <= LONGEST_WORD and word.split() == [word]]
        known.update(zip(plain, self._encoded(plain), strict=True))
        rows = [self._joined(words) for words in parted]
        others = iter(self._encoded([text for text, row in zip(texts, rows, strict=True) if row is None]))
        return [next(others) if row is None else row for row in rows]

    def _joined(self, words: list[str]) -> list[int] | None:
        """The ids of words, one behind the other; None if one of them is none of those that are known."""
        try:
            return [*chain.from_iterable(map(self._words.__getitem__, words))]
        except KeyError:
            return None

    def decode(self, ids: Sequence[int], *, specials: bool = False) -> str:
        """The text of some ids; special tokens are left out, but for <unk>, which stands for a word.

        With `specials`, those with names of their own are written too, as `encode` reads them.
        """
        if not specials or not self._named:
            return self.decode_batch([ids])[0]
        self._check(ids)
        kept = [number for number in ids if number not in (PAD, BOS, EOS)]
        text = self._rust.decode(kept, skip_special_tokens=False)
        names = "|".join(map(re.escape, self._named))
        return re.sub(rf"(?<=\S)({names})", r" \1", text) if self.kind.has_words else text

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        for ids in rows:
            self._check(ids)
        kept = [[number for number in ids if number not in self._silent] for ids in rows]
        return self._rust.decode_batch(kept, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What a person reads for each id: a space is shown as ▁, and what cannot be printed is escaped."""
        self._check(ids)
        tokens = [str(self._rust.id_to_token(number)) for number in ids]
        return [_visible(self.kind.spell(token)) for token in tokens]

    def vocabulary(self) -> list[str]:
        """The token of each id, as tokenizer.json spells it."""
        return [str(self._rust.id_to_token(number)) for number in range(len(self))]

    @cached_property
    def begins_word(self) -> list[bool]:
        """For each id, whether a word begins with it: a space is before it, or, in WordPiece, no ## is. Each special
        token stands for itself, as does each token where the kind marks no beginnings (characters, whole words, GPT's
        ends of words). The first token of a text begins a word in any case, which its id need not say (GPT-2). Where a
        script has no spaces, a run of its letters is one word; but for WordPiece, which parts Chinese ones."""
        alone = {*range(UNK + 1), *self._named.values()}
        return [number in alone or self.kind.begins(token) for number, token in enumerate(self.vocabulary())]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.vocabulary())}

    def letters(self) -> list[bytes]:
        """The UTF-8 of each id inside its word, without the space before it; of a special token, its name."""
        alone = {*range(UNK + 1), *self._named.values()}
        tokens = enumerate(self.vocabulary())
        return [token.encode() if number in alone else self.kind.letters(token) for number, token in tokens]

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
            text = read_text(path)
            tree = json.loads(text)
        except OSError as error:
            raise InputError(f"cannot read the tokenizer {path}: {error.strerror}; give a tokenizer.json") from None
        except (ValueError, RecursionError):
            raise InputError(f"{path} is damaged: it is not JSON text; copy it again or train anew") from None
        kind = kind_of(tree)
        if kind is None:
            raise InputError(f"{path} is not a tokenizer that qkv trained; train one on your own texts")
        try:
            return cls(text, kind)
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{path} is damaged: {error}; copy it again or train anew") from None

    def _check(self, ids: Sequence[int]) -> None:
        if len(ids) and not 0 <= min(ids) <= max(ids) < self._size:
            raise InputError(
                f"ids from {min(ids)} to {max(ids)} do not fit a vocabulary of {self._size}; "
                "use the tokenizer that belongs to the model"
            )


def _visible(piece: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in piece.replace(" ", "▁"))
