"""What stands on a backbone to answer a question: states of tokens (B, T, D) in, an answer out."""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv.layers.dropout import Dropout


class ClassHead(nn.Module):
    """Radford et al. 2018, section 3.2: softmax(h W) over n classes, h the state of one token; as logits (B, n).

    `pool` says which state stands for the text: of its last token (GPT), of its first (BERT), or the mean of all. With
    `dense`, BERT's pooler, tanh(h V + b), stands before it.
    """

    def __init__(
        self, width: int, *, n: int, pool: Literal["last", "first", "mean"] = "last", dense: bool = False,
        dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.pool, self.dropout = pool, Dropout(dropout)
        self.dense = nn.Sequential(nn.Linear(width, width), nn.Tanh()) if dense else nn.Identity()
        self.output = nn.Linear(width, n)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        answer: Tensor = self.output(self.dropout(self.dense(pooled(hidden, real, self.pool))))
        return answer


class NumberHead(ClassHead):
    """Devlin et al. 2019, section 4.1 (STS-B): one number for a text, by a class of its own; (B,)."""

    def __init__(self, width: int, *, pool: Literal["last", "first", "mean"] = "last", dropout: float = 0.1) -> None:
        super().__init__(width, n=1, pool=pool, dropout=dropout)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        return super().forward(hidden, real)[:, 0]


class TagHead(nn.Module):
    """Devlin et al. 2019, section 5.3: one of n tags for each token; logits (B, T, n)."""

    def __init__(self, width: int, *, n: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout, self.output = Dropout(dropout), nn.Linear(width, n)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        answer: Tensor = self.output(self.dropout(hidden))
        return answer


class SpanHead(nn.Module):
    """Devlin et al. 2019, section 4.2 (SQuAD): S . T_i and E . T_i for each token, where an answer begins and ends.

    Logits (B, 2, T), -inf at padding.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, 2)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        answer: Tensor = self.output(hidden).transpose(1, 2).masked_fill(~real[:, None], -torch.inf)
        return answer


def pooled(hidden: Tensor, real: Tensor, pool: str) -> Tensor:
    """The state (B, D) that stands for each text; `real` (B, T) is True at its tokens, which stand on the left."""
    if pool == "mean":
        return (hidden * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)
    at = real.sum(dim=1).sub(1).clamp(min=0) if pool == "last" else torch.zeros_like(real[:, 0], dtype=torch.long)
    return hidden[torch.arange(len(hidden), device=hidden.device), at]


HEADS: dict[str, type[nn.Module]] = {"classes": ClassHead, "number": NumberHead, "tags": TagHead, "spans": SpanHead}
