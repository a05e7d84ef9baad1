"""A backbone with a head on it: how any pre-trained model is put to work."""

from dataclasses import dataclass

from torch import Tensor

from qkv.config import build
from qkv.layers import HEADS, Projection, init_normal
from qkv.models.model import Backbone, Model
from qkv.text.tokenizer import PAD


@dataclass(frozen=True)
class HeadedOutputs:
    """The head's answer, and what the backbone said: its states (B, T, D), and its projection where it has one."""

    answer: Tensor
    hidden: Tensor
    projection: Projection | None


class Headed(Model):
    """Radford et al. 2018, section 3.2: the transferred model, and one new layer that answers the question.

    `head` is a text, "classes(n=2)": any name of layers.HEADS. The backbone's projection, if it has one, can be asked
    beside it: an auxiliary language model.
    """

    def __init__(self, backbone: Backbone, head: str) -> None:
        super().__init__(backbone.config)
        self.backbone, self.head_text = backbone, head
        self.head = build(HEADS, head, backbone.width)
        init_normal(self.head)

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> HeadedOutputs:
        """Token ids (B, T), padded on the right."""
        real = ids != PAD
        hidden = self.backbone.encode(ids, segments=segments)
        return HeadedOutputs(self.head(hidden, real), hidden, getattr(self.backbone, "projection", None))

    def sizes(self) -> str:
        return f"{self.backbone.sizes()}, head {self.head_text}"
