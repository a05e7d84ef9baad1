"""Structural positions: depth fused with place, and Shaw's tables read at the distance in the tree."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from kit import draw
from qkv.models import TransformerConfig
from qkv.positions import Places, Shaw, Structural, StructuralRelative, Tree, pad_trees

D, H, K = 8, 2, 4
SIZES = TransformerConfig(d_model=D, n_heads=H, max_length=4)  # shorter than the texts: the table must grow
HEADS = [[3, 3, 4, 0, 6, 4], [2, 0, 2]]
CPU = torch.device("cpu")


def places() -> Places:
    return Places.span(0, 6, CPU, tree=pad_trees(HEADS))


def sinusoid(place: int) -> Tensor:
    angles = [place / 10000 ** (2 * i / D) for i in range(D // 2)]
    return torch.tensor([f(angle) for angle in angles for f in (math.sin, math.cos)])


def test_depth_and_place_are_fused_by_a_learned_layer() -> None:
    torch.manual_seed(0)
    position, x = Structural(SIZES), draw(2, 6, D)
    found = position.embed(x, places())
    depths = [[2, 2, 1, 0, 2, 1], [1, 0, 1, 0, 0, 0]]  # by hand; padding is 0
    for b in range(2):
        for t in range(6):
            both = torch.cat((sinusoid(t), sinusoid(depths[b][t])))
            expected = x[b, t] + (position.fuse.weight @ both + position.fuse.bias).tanh()
            torch.testing.assert_close(found[b, t], expected, atol=1e-5, rtol=0)


def test_the_relative_form_is_shaws_where_the_tree_is_a_chain() -> None:
    """Each word under the one before it: depth is place, so depth(i) - depth(j) is i - j, Shaw's j - i turned round."""
    torch.manual_seed(0)
    chain = Places.span(0, 6, CPU, tree=pad_trees([range(6)]))
    tree, line = StructuralRelative(SIZES, clip=3), Shaw(SIZES, clip=3)
    with torch.no_grad():
        line.keys.copy_(tree.keys.flip(0))
        line.values.copy_(tree.values.flip(0))
    q, weights = draw(2, H, 6, K), draw(2, H, 6, 6).softmax(-1)
    torch.testing.assert_close(tree.score(q, q, chain), line.score(q, q, chain))
    torch.testing.assert_close(tree.value(weights, chain), line.value(weights, chain))


def test_the_relative_forms_fast_form_is_the_plain_one() -> None:
    torch.manual_seed(0)
    position, q, weights = StructuralRelative(SIZES, clip=3), draw(2, H, 6, K), draw(2, H, 6, 6).softmax(-1)
    torch.testing.assert_close(position.score(q, q, places()), position.plain_score(q, places()))
    torch.testing.assert_close(position.value(weights, places()), position.plain_value(weights, places()))


def test_each_pair_of_words_has_the_vector_of_its_relation() -> None:
    torch.manual_seed(0)
    position, q, at = StructuralRelative(SIZES, clip=3), draw(2, H, 6, K), places()
    scores = position.score(q, q, at)
    for b in range(2):
        for i in range(6):
            for j in range(6):
                row = max(-3, min(3, int(at.tree.relation[b, i, j]))) + 3
                expected = q[b, :, i] @ position.keys[row] / math.sqrt(K)
                torch.testing.assert_close(scores[b, :, i, j], expected)


def test_the_order_of_words_does_not_matter_where_the_tree_is_the_same() -> None:
    """The relative form looks at the tree alone: words and tree in another order give the results in that order."""
    torch.manual_seed(0)
    position, q, at = StructuralRelative(SIZES), draw(2, H, 6, K), places()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    moved = replace(at, tree=Tree(at.tree.depth[:, order], at.tree.relation[:, order][:, :, order]))
    expected = position.score(q, q, at)[:, :, order][..., order]
    torch.testing.assert_close(position.score(q[:, :, order], q[:, :, order], moved), expected)
