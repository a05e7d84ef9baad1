"""What stands around one text, or two, when a model reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from qkv.text.tokenizer import SPECIALS, Tokenizer

Pool = Literal["last", "first", "mean", "concat"]  # whose state stands for a text


@dataclass(frozen=True)
class Frame:
    """before A after, or before A between B after: names of special tokens."""

    before: tuple[str, ...]
    between: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def specials(self) -> tuple[str, ...]:
        """The names that not every vocabulary has."""
        return tuple(dict.fromkeys(n for n in self.before + self.between + self.after if n not in SPECIALS))

    def size(self, texts: int) -> int:
        """The tokens that stand around and between so many texts."""
        return len(self.before) + len(self.after) + len(self.between) * (texts - 1)

    def join(self, tokenizer: Tokenizer, texts: Sequence[Sequence[int]], most: int) -> tuple[list[int], bool]:
        """The ids of one text or two with their frame, at most `most` of them; and whether something was cut.

        Devlin et al. 2019, the authors' code: of two texts the longer one is cut, token by token, at its end.
        """
        before, between, after = (
            [tokenizer.special(name) for name in names] for names in (self.before, self.between, self.after)
        )
        parts = [list(text) for text in texts]
        room = most - self.size(len(parts))
        is_cut = sum(map(len, parts)) > room
        while (over := sum(map(len, parts)) - max(room, 0)) > 0:
            longest = max(parts, key=len)
            others = max((len(part) for part in parts if part is not longest), default=0)
            del longest[-max(1, min(over, len(longest) - others)) :]
        ids = list(before)
        for number, part in enumerate(parts):
            ids += [*(between if number else ()), *part]
        return ids + after, is_cut


ENDS = Frame(("</s>",), ("</s>",), ("</s>",))  # GPT-2, which knows no other special token
BOTH = Frame(("<s>",), ("</s>",), ("</s>",))  # BERT's paper writes [CLS] A [SEP] B [SEP]
# By their names, those of the models that the native engine reads with, and whose config.json tells all else.
FRAMES = {
    "bert": BOTH,
    "ernie2": BOTH,
    "unilm": BOTH,
    "roberta": Frame(("<s>",), ("</s>", "</s>"), ("</s>",)),
    "gpt": Frame(("<s>",), ("<sep>",), ("<cls>",)),
    "gpt2": ENDS,
    "transformer_encoder": ENDS,
}
