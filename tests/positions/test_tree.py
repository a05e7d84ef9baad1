"""Depths and distances in a dependency tree: by hand, by brute force, and on real sentences."""

import gzip
from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import real
from qkv.errors import InputError
from qkv.positions import depths, inherit, pad_trees, relations

# "From the AP comes this story" (UD-EWT): From <- AP, the <- AP, AP <- comes, this <- story, story <- comes.
HEADS = [3, 3, 4, 0, 6, 4]
DEPTHS = [2, 2, 1, 0, 2, 1]
PAPER = [
    [0, -4, 1, 2, -4, -3],
    [4, 0, 1, 2, -4, -3],
    [-1, -1, 0, 1, -3, -2],
    [-2, -2, -1, 0, -2, -1],
    [4, 4, 3, 2, 0, 1],
    [3, 3, 2, 1, -1, 0],
]
# "From" and "the" meet in "AP", one edge from each; all other pairs meet at the root, as the paper takes it.
DISTANCE = [[0, -2, *PAPER[0][2:]], [2, 0, *PAPER[1][2:]], *PAPER[2:]]


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Any tree: words join in any order, each under one that is already there."""
    n = draw(st.integers(1, 10))
    order = draw(st.permutations(range(n)))
    heads = [0] * n
    for i, word in enumerate(order[1:], 1):
        heads[word] = order[draw(st.integers(0, i - 1))] + 1
    return heads


def edges_between(heads: list[int], start: int) -> list[int]:
    """The number of edges from one word to every other: breadth first, along edges up and down."""
    far, queue = {start: 0}, deque([start])
    while queue:
        word = queue.popleft()
        neighbours = [other for other, head in enumerate(heads) if head == word + 1]
        neighbours += [heads[word] - 1] if heads[word] else []
        for other in neighbours:
            if other not in far:
                far[other] = far[word] + 1
                queue.append(other)
    return [far[word] for word in range(len(heads))]


def test_a_tree_of_six_words_by_hand() -> None:
    assert depths(HEADS).tolist() == DEPTHS
    assert relations(HEADS).tolist() == PAPER
    assert relations(HEADS, "distance").tolist() == DISTANCE


@settings(max_examples=60, deadline=None)
@given(trees())
def test_distances_are_edges_counted_by_brute_force(heads: list[int]) -> None:
    root = heads.index(0)
    assert depths(heads).tolist() == edges_between(heads, root)
    found = relations(heads, "distance")
    for word in range(len(heads)):
        assert found[word].abs().tolist() == edges_between(heads, word)
    assert torch.equal(found, -found.T)


@settings(max_examples=60, deadline=None)
@given(trees())
def test_the_papers_relation_pair_by_pair(heads: list[int]) -> None:
    depth, found = depths(heads).tolist(), relations(heads).tolist()

    def is_above(i: int, j: int) -> bool:
        while j != i and heads[j]:
            j = heads[j] - 1
        return i == j

    for i in range(len(heads)):
        for j in range(len(heads)):
            apart = depth[i] + depth[j] if i > j else -depth[i] - depth[j]
            expected = depth[i] - depth[j] if is_above(i, j) or is_above(j, i) else apart
            assert found[i][j] == expected


def test_leaves_that_change_places_keep_their_depths() -> None:
    """ "the From AP comes this story": depth is a matter of the tree, not of the order."""
    swapped = [HEADS[1], HEADS[0], *HEADS[2:]]
    assert sorted(depths(swapped).tolist()) == sorted(DEPTHS)
    assert depths(swapped).tolist() == [DEPTHS[1], DEPTHS[0], *DEPTHS[2:]]
    far_leaf = [6, 3, 4, 0, 3, 4]  # "this" and "From" change places: 1 now hangs on 6, 5 on 3
    assert depths(far_leaf).tolist() == [DEPTHS[4], *DEPTHS[1:4], DEPTHS[0], DEPTHS[5]]


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([0, 1, 0], "one root, but 2 of 3 words have head 0"),
        ([2, 1], "one root, but 0 of 2 words have head 0"),
        ([], "one root, but 0 of 0 words have head 0"),
        ([0, 3, 2], "lead in a circle through word"),
        ([0, 2], "lead in a circle through word 2"),
        ([0, 3], "word 2 of 2 has head 3"),
        ([0, -1], "word 2 of 2 has head -1"),
    ],
)
def test_what_is_no_tree_is_refused(heads: list[int], message: str) -> None:
    for measure in (depths, relations):
        with pytest.raises(InputError, match=message):
            measure(heads)


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'distance'"):
        relations(HEADS, "distances")


def test_sub_words_inherit_the_place_of_their_word() -> None:
    words = [0, 1, 2, 2, 3, 4, 5, 5, 5]  # "AP" in two pieces, "story" in three
    assert inherit(depths(HEADS), words).tolist() == [DEPTHS[word] for word in words]
    assert inherit(relations(HEADS), words).tolist() == [[PAPER[i][j] for j in words] for i in words]
    with pytest.raises(InputError, match="belong to words 0 to 6, but the tree has 6 words"):
        inherit(depths(HEADS), [0, 6])


def test_a_batch_is_padded() -> None:
    batch = pad_trees([HEADS, [2, 0]])
    assert batch.depth.tolist() == [DEPTHS, [1, 0, 0, 0, 0, 0]]
    assert batch.relation[0].tolist() == PAPER
    assert batch.relation[1, :2, :2].tolist() == [[0, 1], [-1, 0]]
    assert not batch.relation[1, 2:].any()
    assert not batch.relation[1, :, 2:].any()
    pieces = pad_trees([HEADS, [2, 0]], [range(6), [0, 1, 1, 1]], how="distance")
    assert pieces.relation[0].tolist() == DISTANCE
    assert pieces.depth[1].tolist() == [1, 0, 0, 0, 0, 0]
    with pytest.raises(InputError, match="2 trees and the sub-words of 1 sentences"):
        pad_trees([HEADS, [2, 0]], [range(6)])


def test_real_sentences_are_trees() -> None:
    """UD-EWT: every gold tree is read; the distance to a word's own head is 1 by both measures."""
    path = real("ud-english-ewt", "en_ewt-ud-dev.conllu.gz")
    count = 0
    for block in gzip.decompress(path.read_bytes()).decode("utf-8").split("\n\n")[:300]:
        rows = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
        heads = [int(row[6]) for row in rows if row[0].isdigit()]
        depth = depths(heads)
        for how in ("paper", "distance"):
            relation = relations(heads, how)
            for word, head in enumerate(heads):
                if head:
                    assert depth[word] == depth[head - 1] + 1
                    assert relation[word, head - 1] == 1
        count += 1
    assert count == 300
