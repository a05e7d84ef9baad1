"""Scope: whether a token sees only its own sentence, or the whole text."""

from typing import ClassVar, Literal

from torch import Tensor

from qkv.attention.soft import Soft
from qkv.errors import InputError
from qkv.positions import Places, Sizes


class Scope(Soft):
    """Bao et al. 2021 (G-Transformer), group attention: a token sees its own sentence, or else the whole document.

    `limit` is "sentence" or "document": lecture notes call attention with these limits "local" and "general", which is
    neither Luong et al. 2015's windows (`local_m`, `local_p`) nor his general score. Where sentences end is in
    `at.sentence`; a text with no ends is one sentence.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder",)

    def __init__(
        self,
        sizes: Sizes,
        *,
        limit: Literal["sentence", "document"] = "sentence",
        score: str = "scaled_dot",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(sizes, score=score, dropout=dropout)
        if limit not in ("sentence", "document"):
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
