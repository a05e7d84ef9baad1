"""Whole words: a token for each frequent one, and for any other its letters, byte by byte."""

from collections.abc import Container, Iterable

from qkv.text.kinds import BYTES, NOTHING, SPECIALS, UNK, Kind, Tree, count_words, make_frame, numbered, ranked

BEGIN = "▁"  # a word begins
SIGNS = r"[@#]?\w(?:[\w'’.&/-]*\w)?|\S"  # signs at the ends of a word are words; those inside it are not
SPACES = r"\S+"


class Words(Kind):
    """Words as a language model of words has them (Jozefowicz et al. 2016, section 4.1): the most frequent ones are
    tokens. Any other is written as "▁" and its bytes, so that a model can still read it letter by letter (ELMo).

    A word is what stands between spaces; with `signs`, commas and the like at its ends are words too. Not lossless:
    what spaces there were is gone.
    """

    type = "BPE"  # without merges, but for those words that are tokens as a whole

    def __init__(self, *, signs: bool = True) -> None:
        words = {"type": "Split", "pattern": {"Regex": SIGNS if signs else SPACES}, "behavior": "Removed",
                 "invert": True}  # fmt: skip
        begun = {"type": "Metaspace", "replacement": BEGIN, "prepend_scheme": "always", "split": False}
        self.frame = make_frame(
            None,
            {"type": "Sequence", "pretokenizers": [words, begun]},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Replace", "pattern": {"String": BEGIN}, "content": " "},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        )

    def learn(self, texts: Iterable[str], reserved: list[str], room: int, alphabet: list[str]) -> Tree:
        words, _ = count_words({**self.frame, "model": NOTHING}, texts)
        words.pop(BEGIN, None)
        known = [BEGIN, *ranked(words, [BEGIN + letter for letter in alphabet])]
        vocab = numbered([*reserved, *known[:room]])
        return {
            "type": "BPE", "dropout": None, "unk_token": SPECIALS[UNK], "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": True, "ignore_merges": True,
            "vocab": vocab, "merges": [],
        }  # fmt: skip

    def tokens(self, word: str, known: Container[str]) -> list[str]:
        """A word that somebody has set apart, whatever signs are in it."""
        token = BEGIN + word
        return [token] if token in known else [BEGIN, *(BYTES[byte] for byte in word.encode())]

    def spell(self, token: str) -> str:
        return token.replace(BEGIN, " ")
