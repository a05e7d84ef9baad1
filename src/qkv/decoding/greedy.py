"""Greedy decoding: always the most probable next token; and sampling, which draws it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from qkv.decoding.hypothesis import Hypothesis, best, next_log_probabilities
from qkv.errors import InputError
from qkv.models import Writes
from qkv.text.tokenizer import EOS

COLDEST, HOTTEST = 1e-6, 1e6  # temperatures; float32 holds every log p divided by them
Choose = Callable[[Tensor], tuple[Tensor, Tensor]]  # log p (N, V) -> log p and number of one token a row, both (N, 1)


def greedy(model: Writes, given: Tensor, limits: Sequence[int], *, no_repeat: int = 0) -> list[Hypothesis]:
    """`given` (B, S) is padded as the model's `start` reads it; row i has at most limits[i] tokens with its end."""
    return one_by_one(model, given, limits, lambda log_p: best(log_p, 1), no_repeat=no_repeat)


def sample(
    model: Writes, given: Tensor, limits: Sequence[int],
    *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0, no_repeat: int = 0,
) -> list[Hypothesis]:  # fmt: skip
    """Draw each token from softmax(logits / temperature), cut to the `top_k` best and to the nucleus `top_p`.

    Nucleus (Holtzman et al. 2020): the fewest tokens whose probabilities sum to at least top_p.
    """
    check_sampling(temperature, top_k, top_p)
    generator = torch.Generator(given.device).manual_seed(seed)

    def draw(log_p: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.multinomial(narrow(log_p / temperature, top_k, top_p), 1, generator=generator)
        return log_p.gather(1, chosen), chosen

    return one_by_one(model, given, limits, draw, no_repeat=no_repeat)


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    if not COLDEST <= temperature <= HOTTEST or top_k < 0 or not 0 < top_p <= 1:
        raise InputError(
            f"temperature={temperature}, top_k={top_k}, top_p={top_p}: give a temperature above 0 "
            f"(from {COLDEST:g} to {HOTTEST:g}), top_k of 0 (all) or more, top_p above 0 and up to 1"
        )


def narrow(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Probabilities (N, V) with all but the allowed tokens at 0, summing to 1."""
    p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    before = p.cumsum(dim=-1) - p  # what the better tokens sum to
    p = p.masked_fill(before >= top_p, 0)
    if top_k:
        p[:, top_k:] = 0
    return torch.zeros_like(p).scatter_(1, order, p / p.sum(dim=-1, keepdim=True))


@torch.inference_mode()
def one_by_one(
    model: Writes, given: Tensor, limits: Sequence[int], choose: Choose, *, no_repeat: int = 0
) -> list[Hypothesis]:
    """One hypothesis for each sentence; those that have ended leave the batch."""
    found: dict[int, Hypothesis] = {}
    first, state = model.start(given)
    sentence = torch.arange(len(given))  # which one each row is
    limit = torch.tensor(limits)
    tokens = first[:, None]
    total = torch.zeros(len(given), device=first.device)
    while len(sentence):
        must_end = limit[sentence] <= tokens.size(1) if min(limits) <= tokens.size(1) else None
        log_p = next_log_probabilities(model.step(tokens[:, -1], state), tokens, must_end, no_repeat)
        value, chosen = choose(log_p)
        total = total + value[:, 0]
        tokens = torch.cat((tokens, chosen), dim=1)
        ended = chosen[:, 0].cpu() == EOS
        if not ended.any():
            continue
        for row in ended.nonzero()[:, 0].tolist():
            score, forced = float(total[row]), must_end is not None and bool(must_end[row])
            found[int(sentence[row])] = Hypothesis(tokens[row, 1:-1].tolist(), score, score, not forced)
        rows = (~ended).nonzero()[:, 0].to(first.device)
        sentence, tokens, total = sentence[~ended], tokens[rows], total[rows]
        state.reorder(rows)
    return [found[i] for i in range(len(given))]
