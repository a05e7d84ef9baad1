"""Texts that outgrow a model's context: it goes on with the last tokens, and forgets what stands before them."""

import torch
from torch import Tensor

from qkv.models import Writes
from qkv.text.tokenizer import PAD


class Sliding:
    """A model that is given prompts and may write any number of tokens; made for one search, it is its own state.

    When a row has filled the context, it goes on from the last half of it, whose keys and values are computed anew at
    their new places. Rows slide by their own lengths, so that none depends on the others.
    """

    def __init__(self, model: Writes, context: int) -> None:
        self.model, self.context = model, context

    def start(self, given: Tensor) -> tuple[Tensor, "Sliding"]:
        self.tokens = given[:, :-1]  # (N, t): all that were read
        self.begin = (given == PAD).sum(dim=1)  # (N,): where a row's window begins; prompts are padded on the left
        return self.read(given), self

    def read(self, tokens: Tensor) -> Tensor:
        """Go on from the window of each row, padded on the left; it begins later where it was too long."""
        stop = tokens.size(1)
        self.begin = torch.where(stop - self.begin > self.context, stop - max(1, self.context // 2), self.begin)
        place = torch.arange(stop, device=tokens.device)
        window = tokens.masked_fill(place < self.begin[:, None], PAD)[:, int(self.begin.min()) :]
        self.longest = window.size(1) - 1  # no window is longer
        first, self.inner = self.model.start(window)
        return first

    def step(self, tokens: Tensor, state: "Sliding") -> Tensor:
        """The last token of each row (N,) -> logits of the next one (N, V)."""
        self.tokens = torch.cat((self.tokens, tokens[:, None]), dim=1)
        if self.longest >= self.context:
            self.read(self.tokens)
        self.longest += 1
        return self.model.step(tokens, self.inner)

    def reorder(self, rows: Tensor) -> None:
        self.inner.reorder(rows)
        self.tokens, self.begin = self.tokens[rows], self.begin[rows]
