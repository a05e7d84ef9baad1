"""What does the searching: ids of source sentences in, the best hypotheses of each out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor

from qkv.decoding.beam import beam_search
from qkv.decoding.greedy import greedy, sample
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.lean import LeanTransformer
from qkv.errors import InputError
from qkv.models import Model, Transformer, Writes
from qkv.text.tokenizer import EOS, PAD

LITTLE = 2 * 10**7  # multiply-adds of a step up to which one thread is at least as fast as two
STEEPEST = 20  # the largest alpha: the penalty of a million tokens is still a number
MORE = 50  # tokens that a translation may have more than its source (Vaswani et al. 2017, section 6.1)


@dataclass(frozen=True)
class Search:
    """How to look for a translation: beam search, or greedy with beam=1, or sampling with a temperature."""

    beam: int = 5
    alpha: float = 1.0
    n_best: int = 1
    sampling: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.beam < 1 or self.n_best < 1:
            raise InputError(f"beam={self.beam} and n_best={self.n_best} must be at least 1")
        if self.n_best > self.beam and not self.sampling:
            raise InputError(f"n_best={self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed must be a number from 0 to 2**63 - 1, not {self.seed}")
        if not -STEEPEST <= self.alpha <= STEEPEST:  # nor NaN
            raise InputError(
                f"alpha must be a number such as 0.6 or 1, from {-STEEPEST} to {STEEPEST}, not {self.alpha}"
            )


class Engine(Protocol):
    """Decodes a batch of sentences; unless it draws, each one's hypotheses are the same whatever else is in it."""

    name: str

    def decode(self, sources: list[list[int]], how: Search, no_repeat: int = 0) -> list[list[Hypothesis]]:
        """The n best hypotheses of each source (ids without the end); no run of `no_repeat` tokens comes twice."""
        ...


class Native:
    """Our own searches on a model as it is: the reference that every other engine is measured against."""

    name = "plain"

    def __init__(self, model: Model) -> None:
        self.model, self.decoder = model, cast(Writes, model)

    def decode(self, sources: list[list[int]], how: Search, no_repeat: int = 0) -> list[list[Hypothesis]]:
        limits = longest_targets(sources, self.model.config.max_length)
        src = padded(sources, next(self.model.parameters()).device)
        if how.sampling:
            rows = torch.arange(len(src), device=src.device).repeat_interleave(how.n_best)
            drawn = sample(
                self.decoder, src[rows], [limits[i] for i in rows.tolist()], temperature=how.temperature,
                top_k=how.top_k, top_p=how.top_p, seed=how.seed, no_repeat=no_repeat,
            )  # fmt: skip
            several = [drawn[i : i + how.n_best] for i in range(0, len(drawn), how.n_best)]
            return [sorted(some, key=lambda h: -h.score) for some in several]
        if how.beam == 1:
            return [[one] for one in greedy(self.decoder, src, limits, no_repeat=no_repeat)]
        found = beam_search(self.decoder, src, limits, beam=how.beam, alpha=how.alpha, no_repeat=no_repeat)
        return [some[: how.n_best] for some in found]


class Lean(Native):
    """The same searches on the lean form of a standard Transformer: the same translations, sooner."""

    name = "native"

    def __init__(self, model: Transformer, decoder: Writes | None = None) -> None:
        super().__init__(model)
        self.decoder = decoder or LeanTransformer(model)
        sizes = model.config
        block = 6 * sizes.d_model**2 + 2 * sizes.d_model * sizes.d_ff
        self.weights = sizes.decoder_layers * block + sizes.vocab_size * sizes.d_model  # that a step multiplies with

    def decode(self, sources: list[list[int]], how: Search, no_repeat: int = 0) -> list[list[Hypothesis]]:
        with threads(1 if len(sources) * how.beam * self.weights <= LITTLE else torch.get_num_threads()):
            return super().decode(sources, how, no_repeat)

    def compile(self) -> None:
        """Now, and not after some steps: there is much to do."""
        if isinstance(self.decoder, LeanTransformer):
            self.decoder.compile()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of torch for a while."""
    before = torch.get_num_threads()
    if count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def longest_targets(sources: list[list[int]], max_length: int) -> list[int]:
    """How many tokens each translation may have, the end included."""
    return [min(len(ids) + MORE, max_length - 1) for ids in sources]


def padded(sources: list[list[int]], device: torch.device | str = "cpu") -> Tensor:
    """(B, S): each source with its end, filled up at the right."""
    width = max(len(ids) for ids in sources) + 1
    return torch.tensor([[*ids, EOS] + [PAD] * (width - 1 - len(ids)) for ids in sources], device=device)
