"""TransE, vectors of entities and of the relations between them (Bordes et al. 2013, "Translating Embeddings")."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.config import setting
from qkv.errors import InputError
from qkv.models.entities import Entities, EntitiesConfig
from qkv.models.model import Model


@dataclass(frozen=True, kw_only=True)
class TransEConfig(EntitiesConfig):
    """Bordes et al. 2013, section 4.2; the width is that of the vectors that ERNIE reads (Zhang et al. 2019)."""

    vocab_size: int = setting(1000, "size of the vocabulary of its names (read from the tokenizer)")
    relations: list[str] = setting([], "the names of the relations, by their numbers from 0 on")
    distance: Literal["l1", "l2"] = setting("l1", "how far two vectors are apart: sum of differences, or straight")

    def __post_init__(self) -> None:
        if self.d_entity < 1:
            raise InputError(f"d_entity must be at least 1, not {self.d_entity}")

    @property
    def d_model(self) -> int:
        return self.d_entity


class TransE(Model):
    """Bordes et al. 2013, section 2: d(h + r, t), how far a tail is from where its head is moved to by the relation.

    Vectors of entities have the length 1; those of relations are drawn from U(-6 / sqrt(k), 6 / sqrt(k)), and have it
    at first.
    """

    config_class = TransEConfig
    config: TransEConfig
    shown = "{c.distance}"
    reads_text = False

    def __init__(self, config: TransEConfig) -> None:
        super().__init__(config)
        self.entities = Entities(len(config.entities), config.d_entity, learns=True)
        drawn = torch.empty(max(1, len(config.relations)), config.d_entity).uniform_(-1, 1)
        self.relations = nn.Parameter(F.normalize(drawn, dim=1))

    def forward(self, links: Tensor) -> Tensor:
        """Links (.., 3), the numbers of head, relation and tail -> their distances (..)."""
        head, relation, tail = links.unbind(dim=-1)
        moved = self.entities(head) + F.embedding(relation, self.relations)
        return (moved - self.entities(tail)).norm(p=int(self.config.distance[1]), dim=-1)

    def sizes(self) -> str:
        count, relations = len(self.config.entities), len(self.config.relations)
        return f"{super().sizes()}, {count:,} entities, {relations} relations"
