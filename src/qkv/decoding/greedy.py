"""Greedy decoding: always the most probable next token; and the loop that sampling shares with it."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from qkv.decoding.constraints import Constraints, best
from qkv.decoding.hypothesis import Ends, Hypothesis, NextTokens
from qkv.models import Writes
from qkv.text.tokenizer import EOS

# log p (n, V), which rows of the batch these are (n,), how many tokens stand before -> log p and token, both (n, 1)
Choose = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


def greedy(
    model: Writes, given: Tensor, limits: Sequence[int], *, no_repeat: int = 0, ends: Ends = "forced"
) -> list[Hypothesis]:
    """`given` (B, S) is padded as the model's `start` reads it; row i has at most limits[i] tokens."""
    return collected(one_by_one(model, given, Constraints(limits, no_repeat, ends), most_probable))


def most_probable(log_p: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    return best(log_p, 1)


def collected(steps: Iterator[NextTokens]) -> list[Hypothesis]:
    found: dict[int, Hypothesis] = {}
    for step in steps:
        found |= step.done
    return [found[row] for row in sorted(found)]


@torch.inference_mode()
def one_by_one(model: Writes, given: Tensor, constraints: Constraints, choose: Choose) -> Iterator[NextTokens]:
    """A token for each row, again and again; rows that have ended leave the batch."""
    first, state = model.start(given)
    rows, tokens = torch.arange(len(first)), first[:, None]
    total = torch.zeros(len(first), device=first.device)
    while len(rows):
        last = constraints.last(rows, tokens.size(1))
        log_p = constraints.log_probabilities(model.step(tokens[:, -1], state), tokens, last)
        value, chosen = choose(log_p, rows, tokens.size(1) - 1)
        total, tokens = total + value[:, 0], torch.cat((tokens, chosen), dim=1)
        is_end = chosen[:, 0].cpu() == EOS
        over = is_end if last is None else is_end | last
        done = {}
        for row in over.nonzero()[:, 0].tolist():
            is_last = last is not None and bool(last[row])
            done[int(rows[row])] = constraints.hypothesis(tokens[row, 1:].tolist(), float(total[row]), is_last)
        yield NextTokens(rows, chosen[:, 0], done)
        if done:
            going = (~over).nonzero()[:, 0].to(first.device)
            rows, tokens, total = rows[~over], tokens[going], total[going]
            state.reorder(going)
