"""Our own searches on a model as it is: the reference that every other engine is measured against."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from qkv.decoding.beam import beam_search
from qkv.decoding.constraints import Constraints
from qkv.decoding.draws import RowNumber, uniform
from qkv.decoding.engine import Search
from qkv.decoding.greedy import Choose, collected, most_probable, one_by_one
from qkv.decoding.hypothesis import Hypothesis, NextTokens
from qkv.decoding.sampling import drawing
from qkv.decoding.sliding import Sliding
from qkv.models import CausalBackbone, Model, Writes
from qkv.text.tokenizer import EOS, PAD


class Plain:
    """Our own searches on a model as it is: the reference that every other engine is measured against."""

    name = "plain"

    def __init__(self, model: Model, decoder: Writes | None = None) -> None:
        """`decoder` is what writes in the model's place."""
        self.model, self.decoder = model, decoder or cast(Writes, model)
        self.has_prompts = isinstance(model, CausalBackbone)  # it goes on from prompts, and does not translate

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if how.beam > 1 and not how.sampling:
            writer, given = self.writer(sources, limits), self.given(sources)
            rules: dict[str, Any] = {"no_repeat": how.no_repeat, "ends": how.ends, "at_least": how.at_least}
            rules |= {"prefix": how.prefix, "constant": how.constant, "penalty": how.repetition_penalty}
            found = beam_search(writer, given, limits, beam=how.beam, alpha=how.alpha, **rules)
            return [some[: how.n_best] for some in found]
        every, n = collected(self.stream(sources, limits, how, rows)), how.n_best
        return [sorted(every[i : i + n], key=lambda h: -h.score) for i in range(0, len(every), n)]

    def stream(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> Iterator[NextTokens]:
        """What `decode` gives, greedy or drawn, a token of each text at a time: n_best texts of a source stand side by
        side."""
        writer, given, n = self.writer(sources, limits), self.given(sources), how.n_best
        named = [(*row, i) for row in rows or [(i,) for i in range(len(sources))] for i in range(n)]
        limits = [limit for limit in limits for _ in range(n)]
        return one_by_one(writer, given.repeat_interleave(n, dim=0), *rules_of(how, named, limits))

    def writer(self, sources: list[list[int]], limits: list[int]) -> Writes:
        """What writes; after prompts, a text may outgrow the context. Its last token is not read."""
        context = self.model.config.max_length
        outgrows = any(len(ids) + limit - 1 > context for ids, limit in zip(sources, limits, strict=True))
        return Sliding(self.decoder, context) if self.has_prompts and outgrows else self.decoder

    def given(self, sources: list[list[int]]) -> Tensor:
        device = next(self.model.parameters()).device
        return padded_left(sources, device) if self.has_prompts else padded(sources, device)


def rules_of(how: Search, rows: Sequence[RowNumber], limits: list[int]) -> tuple[Constraints, Choose]:
    """What may follow in each row, and which of it is chosen: the most probable, or what is drawn."""
    choose: Choose = most_probable
    if how.sampling:
        choose = drawing(how.temperature, how.top_k, how.top_p, uniform(how.seed, rows, limits))
    rules = how.no_repeat, how.ends, how.at_least, how.prefix, how.constant, how.repetition_penalty
    return Constraints(limits, *rules), choose


def padded(sources: list[list[int]], device: torch.device | str = "cpu") -> Tensor:
    """(B, S): each source with its end, filled up at the right."""
    width = max(len(ids) for ids in sources) + 1
    return torch.tensor([[*ids, EOS] + [PAD] * (width - 1 - len(ids)) for ids in sources], device=device)


def padded_left(prompts: list[list[int]], device: torch.device | str = "cpu") -> Tensor:
    """(B, T): each prompt as it is, filled up at the left."""
    width = max(len(ids) for ids in prompts)
    return torch.tensor([[PAD] * (width - len(ids)) + ids for ids in prompts], device=device)
