"""Entities: things that have names, each with a vector; and how their names are found in texts."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.config import setting
from qkv.text.tokenizer import PAD, UNK, Tokenizer


@dataclass(frozen=True, kw_only=True)
class EntitiesConfig:
    """What all models say that know entities, so that one can begin with those of another."""

    entities: list[str] = setting([], "the names of the entities that it knows, by their numbers from 1 on")
    d_entity: int = setting(100, "width of the vectors of entities")


class Entities(nn.Module):
    """A vector of length 1 for each entity (Bordes et al. 2013, Algorithm 1), by its number; 0 stands for none.

    Differs: rows of the table have any length, and are divided by it when they are read, where the paper does so after
    each step.
    """

    def __init__(self, count: int, width: int, *, learns: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count + 1, width), requires_grad=learns)

    def forward(self, numbers: Tensor) -> Tensor:
        return F.normalize(F.embedding(numbers, self.weight), dim=-1)


class Names:
    """Finds entities by their names among tokens: from left to right the longest name that begins and ends where words
    do. Until it is told the vocabulary, it finds none."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.numbers: dict[tuple[int, ...], int] = {}
        self.longest: dict[int, int] = {}  # of a name, by its first token
        self.begins = torch.ones(0, dtype=torch.bool)  # (V,), True at tokens that a word begins with

    def know(self, tokenizer: Tokenizer) -> None:
        self.begins = torch.tensor(tokenizer.begins_word)
        self.begins[list(tokenizer.specials.values())] = True
        self.numbers, self.longest = {}, {}
        for before in ("", tokenizer.kind.space):  # the first word of a text may be spelled otherwise than the others
            rows = tokenizer.encode_batch([before + name for name in self.names])
            for number, ids in enumerate(rows, start=1):
                if ids:
                    self.numbers.setdefault(tuple(ids), number)
                    self.longest[ids[0]] = max(len(ids), self.longest.get(ids[0], 0))

    def find(self, ids: Tensor, starts: Tensor | None = None, ends: Tensor | None = None) -> Tensor:
        """At the first token of each name in ids (B, T) the number of its entity, 0 elsewhere: (B, T).

        `starts` and `ends` (B, T) are True where a name may begin, and where one may have its last token.
        """
        if not self.numbers:
            return torch.zeros_like(ids)
        words = self.begins.to(ids.device)[ids]
        if starts is None:
            starts = words & (ids != PAD)
            starts[:, 1:] |= (ids[:, :-1] < UNK) & (ids[:, 1:] != PAD)  # a text may begin with any token
        ends = F.pad(words[:, 1:], (0, 1), value=True) if ends is None else ends
        found = list[list[int]]()
        for tokens, may_start, may_end in zip(*(each.tolist() for each in (ids, starts, ends)), strict=True):
            row = [0] * len(tokens)
            at = 0
            while at < len(tokens):
                size, row[at] = self.name_at(tokens, at, may_end) if may_start[at] else (1, 0)
                at += size
            found.append(row)
        return torch.tensor(found, device=ids.device)

    def name_at(self, tokens: list[int], at: int, may_end: list[bool]) -> tuple[int, int]:
        """The tokens and the number of the longest name there; (1, 0) if there is none."""
        for size in range(min(self.longest.get(tokens[at], 0), len(tokens) - at), 0, -1):
            if may_end[at + size - 1] and (number := self.numbers.get(tuple(tokens[at : at + size]))):
                return size, number
        return 1, 0
