"""Beam search, for every model that has `start` and `step`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.decoding.constraints import Constraints, best
from qkv.decoding.hypothesis import CONSTANT, Ends, Hypothesis
from qkv.models import State, Writes
from qkv.text.tokenizer import EOS


@torch.inference_mode()
def beam_search(
    model: Writes, given: Tensor, limits: Sequence[int],
    *, beam: int, alpha: float = 1.0, no_repeat: int = 0, ends: Ends = "forced", at_least: int = 0,
    prefix: Sequence[int] = (), constant: float = CONSTANT, penalty: float = 1.0,
) -> list[list[Hypothesis]]:  # fmt: skip
    """The `beam` best hypotheses found for each sentence that is given (B, S), best first.

    At each step the best 2 * beam continuations are looked at: ends among the first `beam` of them are finished, the
    first `beam` that do not end live on. A sentence is done when `beam` hypotheses are finished, or at its limit: it
    never depends on its neighbours. Scores are log p / ((5 + length) / 6)^alpha, 5 being the
    `constant`.
    """
    rules = Constraints(limits, no_repeat, ends, at_least, prefix, constant, penalty)
    search = _Search(*model.start(given), rules, beam, alpha)
    while len(search.sentence):
        last = search.constraints.last(search.sentence, search.tokens.size(1))  # sentences (n,)
        rows = None if last is None else last.repeat_interleave(search.total.size(1))  # hypotheses (n * width,)
        logits = model.step(search.tokens[:, -1], search.state)
        search.advance(search.constraints.log_probabilities(logits, search.tokens, rows), last)
    return [sorted(found, key=lambda h: -h.score)[:beam] for found in search.finished]


class _Search:
    """Rows of live hypotheses, `width` for each sentence still at work."""

    def __init__(self, first: Tensor, state: State, constraints: Constraints, beam: int, alpha: float) -> None:
        self.state, self.constraints, self.beam, self.alpha = state, constraints, beam, alpha
        self.sentence = torch.arange(len(first))  # (n,)
        self.tokens = first[:, None]  # (n * width, t)
        self.total = torch.zeros(len(first), 1, device=first.device)  # (n, width): log p of each
        self.finished: list[list[Hypothesis]] = [[] for _ in first]

    def advance(self, log_p: Tensor, last: Tensor | None) -> None:
        """Choose among all continuations (n * width, V) of the live hypotheses."""
        n, width = self.total.shape
        values, tokens = best(log_p, 2 * self.beam)  # of each hypothesis: no more of one can be among the best of all
        sums = (self.total[:, :, None] + values.view(n, width, -1)).flatten(1)  # (n, width * 2W)
        top, index = sums.topk(min(2 * self.beam, sums.size(1)), dim=1)  # (n, 2W)
        parent, token = index // values.size(1), tokens.view(n, -1).gather(1, index)
        rows = parent + width * torch.arange(n, device=parent.device)[:, None]
        self.finish(top, rows, token, last)
        alive = top.masked_fill(token == EOS, -torch.inf)
        self.total, kept = alive.topk(min(self.beam, alive.size(1)), dim=1)  # (n, W)
        going = self.unfinished()
        self.sentence, self.total = self.sentence[going], self.total[going]
        chosen = rows.gather(1, kept)[going].flatten()
        self.tokens = torch.cat((self.tokens[chosen], token.gather(1, kept)[going].flatten()[:, None]), dim=1)
        self.state.reorder(chosen)

    def finish(self, top: Tensor, rows: Tensor, token: Tensor, last: Tensor | None) -> None:
        """Keep what ends among the first `beam` of each sentence; at its limit, all of them."""
        over = token == EOS if last is None else (token == EOS) | last.to(token.device)[:, None]
        if not over.any():
            return
        at_limit, values = [False] * len(top) if last is None else last.tolist(), top.tolist()
        for i, j in over[:, : self.beam].nonzero().tolist():
            if values[i][j] != -torch.inf:
                written = [*self.tokens[rows[i, j], 1:].tolist(), int(token[i, j])]
                hypothesis = self.constraints.hypothesis(written, values[i][j], at_limit[i], self.alpha)
                self.finished[int(self.sentence[i])].append(hypothesis)

    def unfinished(self) -> Tensor:
        """Which sentences go on: too few finished, the limit not reached, and some hypothesis still alive."""
        few = torch.tensor([len(self.finished[s]) < self.beam for s in self.sentence.tolist()])
        early = self.constraints.limits[self.sentence] > self.tokens.size(1)
        return few & early & (self.total[:, 0] > -torch.inf).cpu()
