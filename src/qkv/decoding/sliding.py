"""Texts that outgrow a model's context: it goes on with the last tokens, and forgets what stands before them."""

import torch
from torch import Tensor

from qkv.models import State, Writes
from qkv.text.tokenizer import PAD


class SlidingState:
    """The model's own state, all tokens that were read, and where in them the window of each row begins."""

    def __init__(self, inner: State, tokens: Tensor, begin: Tensor, longest: int) -> None:
        self.inner, self.tokens, self.begin = inner, tokens, begin  # tokens (N, t), begin (N,)
        self.longest = longest  # no window is longer

    def reorder(self, rows: Tensor) -> None:
        self.inner.reorder(rows)
        self.tokens, self.begin = self.tokens[rows], self.begin[rows]


class Sliding:
    """A model that is given prompts and may write any number of tokens.

    When a row has filled the context, it goes on from the last half of it, whose keys and values are computed anew at
    their new places. Rows slide by their own lengths, so that none depends on the others.
    """

    def __init__(self, model: Writes, context: int) -> None:
        self.model, self.context = model, context

    def start(self, given: Tensor) -> tuple[Tensor, SlidingState]:
        begin = (given == PAD).sum(dim=1)  # prompts are padded on the left
        window, begin = self.window(given, begin)
        first, inner = self.model.start(window)
        return first, SlidingState(inner, given[:, :-1], begin, window.size(1) - 1)

    def step(self, tokens: Tensor, state: SlidingState) -> Tensor:
        """The last token of each row (N,) -> logits of the next one (N, V)."""
        whole = torch.cat((state.tokens, tokens[:, None]), dim=1)  # (N, t + 1)
        if state.longest >= self.context:
            window, state.begin = self.window(whole, state.begin)
            _, state.inner = self.model.start(window)
            state.longest = window.size(1) - 1
        state.tokens, state.longest = whole, state.longest + 1
        return self.model.step(tokens, state.inner)

    def window(self, tokens: Tensor, begin: Tensor) -> tuple[Tensor, Tensor]:
        """What each row goes on from, padded on the left, and where it begins: later, where it was too long."""
        stop = tokens.size(1)
        begin = torch.where(stop - begin > self.context, stop - max(1, self.context // 2), begin)
        place = torch.arange(stop, device=tokens.device)
        return tokens.masked_fill(place < begin[:, None], PAD)[:, int(begin.min()) :], begin
