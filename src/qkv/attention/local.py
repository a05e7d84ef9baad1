"""Local attention by what is read: each query looks around a place that it predicts, or at its own sentence."""

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from qkv.attention.scores import draw
from qkv.attention.soft import Soft
from qkv.attention.sparse import check_radius
from qkv.errors import InputError
from qkv.positions import Places, Sizes

Limit = Literal["sentence", "document"]


class LocalP(Soft):
    """Luong et al. 2015, section 3.2, Eq. 9 and 10, local-p: each query predicts the place p_t around which it looks.

    p_t = S sigmoid(v^T tanh(W q)), and a(s) = align(q, k_s) exp(-(s - p_t)^2 / (2 sigma^2)) with sigma = radius / 2,
    where align is a softmax over the keys within `radius` of p_t. W and v are for each head; they learn through the
    Gaussian alone, which is not normalised. S is the number of keys that the query may see: neither padding nor
    neighbours nor decoding token by token change it.
    """

    def __init__(self, sizes: Sizes, *, radius: int = 10, score: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        self.radius = check_radius(radius)
        self.weight, self.v = (draw(sizes.n_heads, sizes.head_width, columns) for columns in (sizes.head_width, 1))

    def place(self, scores: Tensor, q: Tensor) -> Tensor:
        """p_t, a real number for each query: (B, H, T, 1)."""
        chosen = torch.tanh(q @ self.weight) @ self.v  # (B, H, T, 1)
        wide = chosen.to(torch.promote_types(chosen.dtype, torch.float32))  # bfloat16 cannot tell place 300 from 301
        return (scores > -torch.inf).sum(dim=-1, keepdim=True) * wide.sigmoid()

    def choose(self, scores: Tensor, q: Tensor, at: Places) -> Tensor:
        away = at.pairs[1] - self.place(scores, q)  # (B, H, T, S)
        align = super().choose(scores.masked_fill(away.abs() > self.radius, -torch.inf), q, at)
        return align * torch.exp(-2 * (away / self.radius) ** 2)  # 1 / (2 sigma^2) = 2 / radius^2


class Scope(Soft):
    """Bao et al. 2021 (G-Transformer), group attention: a token sees its own sentence, or else the whole document.

    `limit` is "sentence" or "document": lecture notes call attention with these limits "local" and "general", which is
    neither Luong et al. 2015's windows (`local_m`, `local_p`) nor his general score. Where sentences end is in
    `at.sentence`; a text with no ends is one sentence.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder",)

    def __init__(
        self, sizes: Sizes, *, limit: Limit = "sentence", score: str = "scaled_dot", dropout: float = 0.0
    ) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if limit not in get_args(Limit):
            raise InputError(f"limit={limit!r} is no scope; give 'sentence' or 'document'")
        self.limit = limit

    def region(self, at: Places) -> Tensor | None:
        if self.limit == "document":
            return None
        if at.sentence is None:
            raise InputError(
                "scope(limit='sentence') was not told where sentences end; "
                "set sentence_ends to the ids that end one, or take scope(limit='document')"
            )
        last = at.sentence.size(1) - at.query.size(-1)  # where rows differ, places are no columns
        own = at.sentence[:, at.query] if at.query.dim() == 1 else at.sentence[:, last:]  # (B, T)
        return (own[:, :, None] == at.sentence[:, None, :])[:, None]  # (B, 1, T, S)


def sentence_numbers(ids: Tensor, ends: list[int]) -> Tensor:
    """The number of the sentence that each token of a text belongs to; `ends` are the ids that end one: (B, S)."""
    is_end = torch.isin(ids, torch.tensor(ends, device=ids.device)).long()
    return is_end.cumsum(dim=1) - is_end
