"""A backbone with heads on it: how any pre-trained model is put to work, and what it is trained with beside words."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import drawing
from qkv.config import build
from qkv.layers import HEADS, init_normal
from qkv.models.model import Backbone, Model, Outputs
from qkv.text.tokenizer import PAD, Tokenizer


@dataclass(frozen=True)
class HeadedOutputs(Outputs):
    """What the backbone said, and the heads to be asked about it; `real` (B, T) is True at the tokens of the texts, and
    `second` at those of the second of two."""

    heads: nn.ModuleDict
    real: Tensor
    second: Tensor

    def answer(self, head: str, *given: Any) -> Tensor:
        asked: Any = self.heads.get_submodule(head)
        return asked(self.hidden, self.real, *((self.second,) if asked.of_pairs else ()), *given)

    def of(self, part: str) -> "HeadedOutputs":
        """The same, of which the heads of one part of a mixture are asked."""
        heads: Any = self.heads[part]
        return replace(self, heads=heads)


class Headed(Model):
    """Radford et al. 2018, section 3.2: the transferred model, and one new layer that answers the question.

    `heads` names each by the objective that asks it, {"classes": "classes(n=2)"}: any name of layers.HEADS. The
    backbone's projection, if it has one, can be asked beside them: an auxiliary language model. Those of a part of a
    mixture have its name before theirs, {"rte.classes": "classes(n=2)"}, and are asked by `of("rte")`.
    """

    def __init__(self, backbone: Backbone, heads: Mapping[str, str]) -> None:
        super().__init__(backbone.config)
        self.backbone, self.head_texts = backbone, dict(heads)
        self.heads = nn.ModuleDict()
        for name, text in heads.items():
            part, _, own = name.rpartition(".")
            if part and part not in self.heads:
                self.heads[part] = nn.ModuleDict()
            several: Any = self.heads[part] if part else self.heads
            several[own] = build(HEADS, text, backbone.width)
        init_normal(self.heads)

    def of(self, part: str) -> "Headed":
        """The same weights with the heads of one part of a mixture, by names of their own."""
        model = copy.copy(self)
        model._modules = {**self._modules, "heads": self.heads[part]}
        texts = ((name.partition("."), text) for name, text in self.head_texts.items())
        model.head_texts = {name: text for (of, _, name), text in texts if of == part}
        return model

    def forward(self, ids: Tensor, **given: Any) -> HeadedOutputs:
        """Token ids (B, T), padded on the right, and what else the backbone reads."""
        with drawing() as choices:
            hidden = self.backbone.encode(ids, **given)
        projection: Any = getattr(self.backbone, "projection", None)
        segments = given.get("segments")
        second = torch.zeros_like(ids, dtype=torch.bool) if segments is None else segments > 0
        return HeadedOutputs(hidden, projection, choices, self.heads, ids != PAD, second)

    def inputs(self) -> set[str]:
        return self.backbone.inputs()

    def know(self, tokenizer: Tokenizer) -> None:
        self.backbone.know(tokenizer)

    def sizes(self) -> str:
        return f"{self.backbone.sizes()}, head {', '.join(self.head_texts.values())}"
