"""Structural positions: where a word stands in the dependency tree of its sentence."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.positions.places import Places, Tree
from qkv.positions.position import Sizes
from qkv.positions.shaw import Shaw
from qkv.positions.waves import Waves


class Structural(Waves):
    """Wang et al. 2019, absolute: tanh(W [PE(place), PE(depth in the tree)] + b) is added to the embedding.

    PE is the sinusoid of Vaswani et al. 2017; depth counts the edges up to the root, the main verb.
    """

    needs_tree: ClassVar[bool] = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes.d_model, sizes.max_length, layout="interleaved")
        self.fuse = nn.Linear(2 * sizes.d_model, sizes.d_model)

    def embed(self, x: Tensor, at: Places) -> Tensor:
        depth = self.waves(tree_of(at).depth)  # (B, T, D)
        both = torch.cat((self.waves(at.query).expand_as(depth), depth), dim=-1)  # (B, T, 2D)
        fused: Tensor = self.fuse(both).tanh()  # (B, T, D)
        return x + fused.to(x.dtype)


class StructuralRelative(Shaw):
    """Wang et al. 2019, relative: Shaw's tables, read at the distance in the dependency tree (see tree.relations)."""

    needs_tree: ClassVar[bool] = True

    def distance(self, at: Places) -> Tensor:
        return tree_of(at).relation[:, None]  # (B, 1, T, S)


def tree_of(at: Places) -> Tree:
    if at.tree is None:
        raise InputError(
            "structural positions need the dependency tree of each sentence, and none was given; "
            "give heads as in CoNLL-U, or take another position"
        )
    return at.tree
