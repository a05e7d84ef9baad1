"""The searches on the lean form of a model: the same texts, sooner."""

from collections.abc import Sequence

import torch

from qkv.decoding.engine import Search, Spread, Work
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.sampling import RowNumber
from qkv.engines.lean import LeanGPT2, LeanTransformer, LeanWriter
from qkv.engines.workers import SideBySide
from qkv.models import GPT2, GPT2Config, Transformer, Writes

LITTLE = 2 * 10**7  # multiply-adds of a step up to which one thread is at least as fast as two


class Lean(SideBySide):
    """The searches on the lean form of a standard Transformer or GPT-2: the same texts, sooner."""

    name = "lean"

    def __init__(self, model: Transformer | GPT2, decoder: Writes | None = None) -> None:
        super().__init__(model, decoder or (LeanGPT2(model) if isinstance(model, GPT2) else LeanTransformer(model)))
        c = model.config
        layers, attentions = (c.layers, 4) if isinstance(c, GPT2Config) else (c.decoder_layers, 6)
        block = attentions * c.d_model**2 + 2 * c.d_model * c.inner_width
        self.weights = layers * block + c.vocab_size * c.d_model  # that a step multiplies with
        self.sets_threads = False  # True, for a process of one's own: little work is done by one thread of torch

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        if not self.sets_threads or len(sources) * how.beam * self.weights > LITTLE:
            return super().decode(sources, limits, how, rows)
        before = torch.get_num_threads()
        torch.set_num_threads(1)  # threads that begin meanwhile keep it
        try:
            return super().decode(sources, limits, how, rows)
        finally:
            torch.set_num_threads(before)

    def compile(self) -> None:
        """Now, and not after some steps: there is much to do."""
        if isinstance(self.decoder, LeanWriter):
            self.decoder.compile()

    def spread(self, work: Work, count: int) -> Spread | None:
        self.compile()  # once for all
        return super().spread(work, count)
