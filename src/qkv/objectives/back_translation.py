"""Back-translation: a sentence is asked for, given the translation of it that the model writes itself."""

from collections.abc import Container
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.objective import NOTHING, Asked, Given
from qkv.objectives.translation import Translation
from qkv.text.language import is_language
from qkv.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

LONGER = 1.3, 5  # times the longest sentence of a batch and so many more: the most tokens of a translation


@dataclass(frozen=True, kw_only=True)
class BackTranslation(Translation):
    """Lample et al. 2018, section 3 (Sennrich et al. 2016 with pairs): L = - log p(x | y), y = argmax p(y | x).

    Each row is a sentence behind the mark of its language, <en> x1 .. xn </s>. The model of this very step, without
    dropout, writes y in another language, token by token the most probable one; nothing is learned through y.
    """

    _marks: ClassVar[Tensor]  # (L,), the ids of the languages' marks
    _silent: ClassVar[Tensor]  # (N,), the ids that are never written
    _model: ClassVar[Any]

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "BackTranslation":
        specials = tokenizer.specials
        marks = [number for name, number in specials.items() if number > UNK and is_language(name[1:-1])]
        if len(marks) < 2:
            raise InputError(
                "back-translation needs sentences of two languages, and this vocabulary has the marks of "
                f"{len(marks)}; give files of several whose names end in a language, such as train.en and train.de"
            )
        silent = torch.tensor([number for number in specials.values() if number != EOS])
        return self.holding(_marks=torch.tensor(marks), _silent=silent)

    def with_model(self, model: Any) -> "BackTranslation":
        return self.holding(_model=model)

    def holding(self, **facts: Any) -> "BackTranslation":
        known = copy(self)
        for name, value in facts.items():
            object.__setattr__(known, name, value)
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """As in translation, of the pairs (<en> y1 .. </s>, <s> <en> x1 .. </s>)."""
        (ids,) = batch.columns
        own = (ids[:, :1] == self._marks).long().argmax(dim=1)  # (B,): the number of its language
        further = torch.randint(1, len(self._marks), own.shape, generator=rng)
        other = self._marks[(own + further) % len(self._marks)]
        written = self.write(torch.cat((other[:, None], ids[:, 1:]), dim=1))
        src = torch.cat((ids[:, :1], written), dim=1)
        return super().prepare(replace(batch, columns=(src, F.pad(ids, (1, 0), value=BOS))), rng)

    @torch.no_grad()
    def write(self, src: Tensor) -> Tensor:
        """The translation y1 .. </s> of each row of src (B, S) into the language that its mark names, (B, T)."""
        model, (times, more) = self._model, LONGER
        was_training, device = model.training, next(model.parameters()).device
        model.eval()
        src, silent = src.to(device), self._silent.to(device)
        tokens, state = model.start(src)
        model.step(tokens, state)  # <s>, after which the mark is given
        tokens, found = src[:, 0], list[Tensor]()
        is_over = torch.zeros_like(tokens, dtype=torch.bool)
        limit = min(int(times * src.size(1)) + more, model.config.max_length - 2)
        for left in reversed(range(limit)):
            best = model.step(tokens, state).index_fill(1, silent, -torch.inf).argmax(dim=1)
            tokens = (best if left else torch.full_like(best, EOS)).masked_fill(is_over, PAD)
            found.append(tokens)
            is_over |= tokens == EOS
            if is_over.all():
                break
        model.train(was_training)
        return torch.stack(found, dim=1).cpu()
