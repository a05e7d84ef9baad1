"""What is asked about entities: how they are related, and which of them a name in a text stands for."""

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import setting
from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Usual
from qkv.objectives.passages import IN_ENTITY, NAMED, Passages, read


class OfEntities(Usual):
    """Asked of a model that knows entities."""

    _model: ClassVar[Any]  # that knows them

    def with_model(self, model: Any) -> Self:
        known = copy(self)
        backbone = getattr(model, "backbone", model)
        if not getattr(backbone.config, "entities", []):
            raise InputError(
                "the objective asks about entities, and the model knows none; train some with --task graph, and begin "
                "with them: --architecture ernie_thu --start FOLDER"
            )
        object.__setattr__(known, "_model", backbone)
        return known


def others(numbers: Tensor, count: int, draw: Tensor) -> Tensor:
    """For each of `numbers`, from 0 to count - 1, another one, by numbers from 0 to 1; where there is none, itself."""
    return (numbers + 1 + (draw * (count - 1)).long()) % max(count, 1) if count > 1 else numbers


@dataclass(frozen=True, kw_only=True)
class Links(OfEntities):
    """Bordes et al. 2013 (TransE), Eq. 1: L = sum of [margin + d(h + r, t) - d(h' + r, t')]+ over links, each with one
    of which the head or the tail is any other entity, never both.

    `accuracy` is the share of links that are shorter than the false one beside them: by chance a half.
    """

    margin: float = setting(1.0, "how much longer a false link should be than a true one")

    turn = 2

    def __post_init__(self) -> None:
        if not self.margin > 0:
            raise ValueError(f"margin must be above 0, not {self.margin}")

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Each link (B, 2, 3), and the false one behind it."""
        (links,) = batch.columns
        is_head, which = torch.rand(2, len(links), generator=rng, dtype=torch.float64)
        side = torch.where(is_head < 0.5, 0, 2)[:, None]  # (B, 1)
        other = 1 + others(links.gather(1, side) - 1, len(self._model.config.entities), which[:, None])
        both = torch.stack((links, links.scatter(1, side, other)), dim=1)
        return Asked({"links": both}, torch.zeros(len(links)), len(links))

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        true, false = outputs.unbind(dim=1)  # (B,) each
        total = (self.margin + true - false).relu().sum()
        return Loss(total, {"accuracy": (true < false).detach().sum()})


@dataclass(frozen=True, kw_only=True)
class DenoisingEntities(OfEntities):
    """Zhang et al. 2019 (ERNIE of Tsinghua), section 3.4, dEA: which entity does a name stand for?

        p(e_j | w_i) = exp(linear(w_i) . e_j) / sum_k exp(linear(w_i) . e_k), e_k the entities of the batch.

    Names are those that the files mark. Of their entities some are replaced by others of the batch, since a text may be
    linked wrongly; some are not told, since links are missed; the rest is told. All are asked for.
    """

    replaced: float = setting(0.05, "the share of entities in whose place the model is told another one")
    removed: float = setting(0.15, "the share of entities that the model is not told")

    turn = 1
    passages = True

    def __post_init__(self) -> None:
        if min(self.replaced, self.removed) < 0 or self.replaced + self.removed > 1:
            raise ValueError(
                f"replaced={self.replaced} and removed={self.removed} are no shares; give 0 or more, at most 1 together"
            )

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        """Labels (B, T): the number of the entity at the first token of its name, 0 elsewhere."""
        Passages(batch, "denoising_entities")
        text = read(batch, inputs)
        goes_on = F.pad((text.marks[:, 1:] & IN_ENTITY) > 0, (0, 1))
        labels = self._model.names.find(text.ids, (text.marks & NAMED) > 0, ~goes_on)
        at = labels > 0
        candidates, own = labels[at].unique(return_inverse=True)  # (C,), (N,)
        fate, which = torch.rand(2, *labels.shape, generator=rng, dtype=torch.float64)[:, at]
        told = labels[at].masked_fill(fate < self.replaced + self.removed, 0)
        another = candidates[others(own, len(candidates), which)]
        told = torch.where(fate < self.replaced, another, told)
        entities = torch.zeros_like(labels).masked_scatter(at, told)
        return Asked({"ids": text.ids, "entities": entities}, labels, len(told), beside=text.beside)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        at = asked.labels > 0
        candidates, right = asked.labels[at].unique(return_inverse=True)  # (C,), (N,)
        said = outputs.projection.entity(outputs.hidden[at])  # (N, d_entity)
        if not len(candidates):
            return Loss(said.sum(), {"accuracy": said.new_zeros(())})
        logits = said @ self._model.entities(candidates).T  # (N, C)
        total = F.cross_entropy(logits, right, reduction="sum")
        return Loss(total, {"accuracy": (logits.argmax(dim=1) == right).sum()})

    def check(self, documents: int, marks: int) -> None:
        if not marks & NAMED:
            raise InputError(
                "denoising_entities asks what names stand for, and the files mark none; give treebanks (.conllu) or "
                "tagged names (.conll)"
            )
