"""A backbone with heads on it: how any pre-trained model is put to work, and what it is trained with beside words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from qkv.attention import drawing
from qkv.config import build
from qkv.layers import HEADS, init_normal
from qkv.models.model import Backbone, Model, Outputs
from qkv.text.tokenizer import PAD


@dataclass(frozen=True)
class HeadedOutputs(Outputs):
    """What the backbone said, and the heads to be asked about it; `real` (B, T) is True at the tokens of the texts."""

    heads: nn.ModuleDict
    real: Tensor

    def answer(self, head: str, *given: Any) -> Tensor:
        return self.heads[head](self.hidden, self.real, *given)


class Headed(Model):
    """Radford et al. 2018, section 3.2: the transferred model, and one new layer that answers the question.

    `heads` names each by the objective that asks it, {"classes": "classes(n=2)"}: any name of layers.HEADS. The
    backbone's projection, if it has one, can be asked beside them: an auxiliary language model.
    """

    def __init__(self, backbone: Backbone, heads: Mapping[str, str]) -> None:
        super().__init__(backbone.config)
        self.backbone, self.head_texts = backbone, dict(heads)
        self.heads = nn.ModuleDict({name: build(HEADS, text, backbone.width) for name, text in heads.items()})
        init_normal(self.heads)

    def forward(self, ids: Tensor, **given: Any) -> HeadedOutputs:
        """Token ids (B, T), padded on the right, and what else the backbone reads."""
        with drawing() as choices:
            hidden = self.backbone.encode(ids, **given)
        projection: Any = getattr(self.backbone, "projection", None)
        return HeadedOutputs(hidden, projection, choices, self.heads, ids != PAD)

    def inputs(self) -> set[str]:
        return self.backbone.inputs() - {"state"}  # texts are read whole

    def sizes(self) -> str:
        return f"{self.backbone.sizes()}, head {', '.join(self.head_texts.values())}"
