"""Dependency trees as positions: how deep each word stands, how far each stands from each, and how a model reads it."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.errors import InputError, nearest
from qkv.positions.absolute import Waves
from qkv.positions.position import Places, Sizes, Tree
from qkv.positions.relative import Shaw

Heads = Sequence[int]  # for each word the number of its head, from 1; 0 for the root (CoNLL-U, column 7)
HOW = ("paper", "distance")


def paths(heads: Heads) -> list[list[int]]:
    """For each word the words from itself up to the root, counted from 0."""
    n, roots = len(heads), sum(head == 0 for head in heads)
    if roots != 1:
        raise InputError(f"a dependency tree has one root, but {roots} of {n} words have head 0; correct {list(heads)}")
    found = []
    for word in range(n):
        path = [word]
        while (head := heads[path[-1]]) != 0:
            if not 0 < head <= n:
                raise InputError(f"word {path[-1] + 1} of {n} has head {head}; give a word's number, or 0 for the root")
            if head - 1 in path:
                raise InputError(f"the heads {list(heads)} lead in a circle through word {head}; give a tree")
            path.append(head - 1)
        found.append(path)
    return found


def depths(heads: Heads) -> Tensor:
    """The number of edges from each word up to the root, (T,)."""
    return torch.tensor([len(path) - 1 for path in paths(heads)])


def relations(heads: Heads, how: str = "paper") -> Tensor:
    """The signed distance of words i and j in the tree, (T, T).

    If one stands above the other it is depth(i) - depth(j). Otherwise the paper (Wang et al. 2019) takes
    depth(i) + depth(j), and "distance" the edges between the two, by way of the lowest word above both; positive if i
    stands behind j in the sentence, negative if before.
    """
    if how not in HOW:
        raise InputError(f"unknown way {how!r} to measure a tree; {nearest(how, HOW)}")
    n = len(heads)
    above = torch.zeros(n, n, dtype=torch.long)  # 1 where j is i or stands above it
    for word, path in enumerate(paths(heads)):
        above[word, path] = 1
    depth, place = above.sum(1) - 1, torch.arange(n)
    apart = depth[:, None] + depth[None, :]
    if how == "distance":
        apart = apart - 2 * (above @ above.T - 1)  # all words above both, but the lowest of them
    order = (place[:, None] - place[None, :]).sign()
    return torch.where((above | above.T).bool(), depth[:, None] - depth[None, :], order * apart)


def inherit(values: Tensor, words: Sequence[int]) -> Tensor:
    """Sub-words stand where their word stands: values of words (T,) or (T, T), and each sub-word's word from 0."""
    if len(words) and not 0 <= min(words) <= max(words) < len(values):
        raise InputError(
            f"sub-words belong to words {min(words)} to {max(words)}, but the tree has {len(values)} words; "
            "number its words from 0"
        )
    for dim in range(values.dim()):
        values = values.index_select(dim, torch.tensor(words, dtype=torch.long))
    return values


def pad_trees(heads: Sequence[Heads], words: Sequence[Sequence[int]] | None = None, *, how: str = "paper") -> Tree:
    """One Tree for a batch of sentences; with `words`, for their sub-words. Shorter ones are filled with 0."""
    if words is None:
        words = [range(len(sentence)) for sentence in heads]
    if len(words) != len(heads):
        raise InputError(
            f"{len(heads)} trees and the sub-words of {len(words)} sentences were given; give as many of both"
        )
    B, T = len(heads), max((len(sentence) for sentence in words), default=0)
    depth, relation = torch.zeros(B, T, dtype=torch.long), torch.zeros(B, T, T, dtype=torch.long)
    for row, (sentence, own) in enumerate(zip(heads, words, strict=True)):
        n = len(own)
        depth[row, :n] = inherit(depths(sentence), own)
        relation[row, :n, :n] = inherit(relations(sentence, how), own)
    return Tree(depth, relation)


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
