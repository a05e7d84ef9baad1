"""Permutation language modelling: what is asked for, whole words and n-grams, and who sees whom, by plain loops."""

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kit import batch, tiny_model
from qkv.data import Batch, Place, generator
from qkv.errors import InputError
from qkv.objectives import Asked, PermutationLM, hiding, objective
from qkv.objectives.permutation import ending
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

TEXTS = ["the unbelievable dogs were running", "unforgettable cats and dogs", "a dog runs believably to the forest"]
WORDS = Tokenizer.train(TEXTS, kind="wordpiece", vocab_size=60, specials=("<mask>",))
ORDINARY = [n for n in range(len(WORDS)) if n not in WORDS.specials.values()]
BEGINS = torch.tensor([not token.startswith("##") for token in WORDS.vocabulary()])
ROWS, LENGTH = 2_000, 60  # of which 10 are one in 6


def windows(rows: int = ROWS, length: int = LENGTH) -> Batch:
    rng = torch.Generator().manual_seed(1)
    ids = torch.tensor(ORDINARY)[torch.randint(len(ORDINARY), (rows, length), generator=rng)]
    ids[:, length // 2] = EOS  # a document ends
    return Batch((ids,), torch.full((rows, 1), length), np.zeros((rows, 2), np.int64))


def ask(rows: Batch, **options: Any) -> Asked:
    return PermutationLM(**options).knowing(WORDS).prepare(rows, generator(1, Place()))


def hidden(asked: Asked) -> Tensor:
    """Which tokens (B, T) are asked for."""
    found = torch.zeros_like(asked.inputs["ids"], dtype=torch.bool)
    row, place = (asked.labels != PAD).nonzero(as_tuple=True)
    found[row, asked.inputs["targets"][row, place]] = True
    return found


def test_a_window_is_read_as_it_stands_with_the_last_token_behind_it() -> None:
    rows = windows(3)
    ids = ask(rows).inputs["ids"]
    assert torch.equal(ids[:, :-1], rows.columns[0][:, 1:])  # its first token was the last of the window before
    assert (ids[:, -1] == BOS).all()


def test_texts_of_several_lengths_end_before_their_padding() -> None:
    found = ending(torch.tensor([[BOS, 7, 8, EOS], [BOS, 9, PAD, PAD], [BOS, PAD, PAD, PAD]]))
    assert found.tolist() == [[7, 8, EOS, BOS], [9, BOS, PAD, PAD], [BOS, PAD, PAD, PAD]]


@pytest.mark.parametrize("unit", ["span", "released", "piece"])
def test_one_token_of_k_is_asked_for_and_none_that_is_special(unit: str) -> None:
    asked = ask(windows(), unit=unit)
    ids, found = asked.inputs["ids"], hidden(asked)
    assert not (found & ((ids == BOS) | (ids == EOS))).any()
    assert (found.sum(dim=1) == 10).all()
    assert asked.count == ROWS * 10
    assert asked.read == ROWS * LENGTH
    assert torch.equal(asked.labels[asked.labels != PAD], ids[found])


def lengths_of(flags: np.ndarray[Any, Any], starts: np.ndarray[Any, Any]) -> list[int]:
    """How many words each run of flags has."""
    edges = [*np.flatnonzero(np.diff(np.pad(flags.astype(int), 1)))]
    return [int(starts[a:b].sum()) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def test_spans_are_whole_words_and_ngrams_are_as_frequent_as_one_by_their_length() -> None:
    """P(n) ~ 1 / n, n from 1 to 5; in a long text, so that none is cut or left over."""
    rng = random.Random(1)
    starts = np.array([[True, *(rng.random() < 0.6 for _ in range(3999))] for _ in range(20)])
    free = np.ones_like(starts)
    draw = hiding.at_random(torch.Size(starts.shape), torch.Generator().manual_seed(2))
    found = hiding.grams(free, starts, np.full(20, 300), draw, k=6)
    counts = np.bincount([n for row in range(20) for n in lengths_of(found[row], starts[row])], minlength=6)
    for row in range(20):
        edges = np.append(starts[row], True)
        for a, b in pairwise(np.flatnonzero(np.diff(np.pad(found[row].astype(int), 1)))):
            assert not found[row][a] or (edges[a] and edges[b])
    shares = counts[1:6] / counts.sum()
    assert np.abs(shares - np.array([0.438, 0.219, 0.146, 0.110, 0.088])).max() < 0.03
    assert counts[0] == 0


def authors_sample(starts: list[bool], goal: int, ngrams: list[int], lefts: list[float], k: int) -> list[bool]:
    """The released sampler in a plain loop, with the numbers that it draws given, and without what it fills in last."""
    mask, count, here = [False] * len(starts), 0, 0
    for n, share in zip(ngrams, lefts, strict=True):
        if count >= goal:
            break
        n = min(n, goal - count)
        left = int(share * n * k)
        begin = here + left
        while begin < len(starts) and not starts[begin]:
            begin += 1
        if begin >= len(starts):
            break
        end = begin + n  # n pieces, for it looks at starts[begin], which is always one
        if end >= len(starts):
            break
        mask[begin:end] = [True] * (end - begin)
        count, here = count + end - begin, end + n * k - left
    return mask


def test_the_released_sampler_counts_pieces_for_words() -> None:
    rng, draws = random.Random(3), []
    starts = np.array([[True, *(rng.random() < 0.5 for _ in range(79))] for _ in range(50)])

    def draw() -> Any:
        draws.append(torch.rand(starts.shape, generator=torch.Generator().manual_seed(len(draws))).double().numpy())
        return draws[-1]

    free = np.ones_like(starts)
    found = hiding.grams(free, starts, np.full(50, 13), draw, k=6, by_piece=True)
    counts = hiding.lengths(draws[0], hiding.GRAMS_UP_TO)
    same = 0
    for row in range(50):
        expected = authors_sample(starts[row].tolist(), 13, counts[row].tolist(), draws[1][row].tolist(), 6)
        assert not (np.array(expected) & ~found[row]).any()
        same += expected == found[row].tolist()
    assert same > 0  # some need nothing more
    words = hiding.grams(free, starts, np.full(50, 13), draw, k=6)
    after = np.pad(starts, ((0, 0), (0, 1)), constant_values=True)[:, 1:]
    ends = found & ~np.pad(found, ((0, 0), (0, 1)))[:, 1:]
    assert (ends & ~after).any()  # it ends within words
    assert (words & ~np.pad(words, ((0, 0), (0, 1)))[:, 1:] & after).any()


@pytest.mark.parametrize("block", [0, 7])
def test_who_sees_whom_is_the_authors_rule(block: int) -> None:
    """Of data_utils.py: i may not see j if rank i <= rank j and j is asked for, or </s> or <s>; a token that is not
    asked for has rank -1; what is not asked for may see its own rank."""
    ids = torch.tensor([[5, 6, 7, EOS, 9, 10, 11, 12, EOS, BOS, PAD]])
    asked = torch.tensor([[0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0]]).bool()
    draw = torch.rand(1, 11, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = PermutationLM(block=block).order(ids, asked, draw)[0]
    turn = draw[0] + (torch.arange(11) // block if block else 0)
    for i in range(10):
        for j in range(11):
            is_functional = ids[0, j] in (BOS, EOS)
            ranks = [float(turn[x]) if asked[0, x] or ids[0, x] in (BOS, EOS) else -1.0 for x in (i, j)]
            own = ranks[0] if asked[0, i] else ranks[0] + 1e-9  # theirs are whole numbers, to which they add 1
            blocked = own <= ranks[1] and bool(asked[0, j] or is_functional)
            assert bool(found[i, j]) == (not blocked and i != j and ids[0, j] != PAD), (i, j)


def test_pairs_of_texts_keep_their_segments() -> None:
    """Beside an objective that arranges two texts: <s> goes behind them, and each token keeps its segment."""
    long, short = (
        ([5, 6, 7, 8, 9, 10, 11, 12], [4, 4], [0] * 8, [0, 1, 20]),
        ([13, 14, 15], [1, 2], [0] * 3, [0, 2, 20]),
    )
    rows = batch(*[long] * 3, *[short] * 3)
    both = objective("permutation_lm(k=2) + 0 * next_sentence").knowing(WORDS)
    asked = both.prepare(rows, generator(1, Place()))
    ids, segments = asked.inputs["ids"], asked.inputs["segments"]
    for row, numbers in zip(ids.tolist(), segments.tolist(), strict=True):
        n = sum(token != PAD for token in row)
        assert row[n - 1] == BOS
        assert row[n - 2] == EOS
        assert row.count(EOS) == 1 + max(numbers)
        first = row.index(EOS) + 1
        assert numbers[: n - 1] == [0] * first + [1] * (n - 1 - first)


def test_what_comes_of_it_is_the_loss_at_the_targets() -> None:
    model = tiny_model("xlnet", vocab_size=len(WORDS), dropout=0.0).eval()
    asked = ask(windows(4), k=4)
    loss = PermutationLM().loss(model(**asked.inputs), asked)
    logits = model(**asked.inputs).logits
    expected = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), asked.labels, ignore_index=PAD, reduction="sum"
    )
    torch.testing.assert_close(loss.total, expected)


@pytest.mark.parametrize("spec", ["permutation_lm(k=0)", "permutation_lm(block=-1)", "permutation_lm(unit='word')"])
def test_what_cannot_be_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match=r"at least 1|span"):
        objective(spec)
