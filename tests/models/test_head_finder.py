"""The head finder: against a loop over Dozat and Manning's equation, with any padding, and the leak test of trees."""

import random

import pytest
import torch
from torch import Tensor

from qkv.errors import InputError
from qkv.models.head_finder import HeadFinder, HeadFinderConfig
from qkv.objectives import Asked
from qkv.objectives.answers import Heads
from qkv.positions import POSITIONS, pad_trees

V = 40
HEADS = [[2, 0, 2, 5, 3], [0, 1, 1]]
WORDS = [[0, 0, 1, 2, 2, 3, 4], [0, 1, 2]]  # the word of each sub-word
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11], [12, 5, 13, 0, 0, 0, 0]])
FIRST = torch.tensor([[0, 2, 3, 5, 6], [0, 1, 2, -1, -1]])
LABELS = torch.tensor([HEADS[0], [*HEADS[1], -1, -1]])


def finder(position: str, seed: int = 0) -> HeadFinder:
    torch.manual_seed(seed)
    config = HeadFinderConfig(
        vocab_size=V, d_model=16, d_ff=24, n_heads=4, layers=2, d_arc=8, dropout=0.0, position=position, max_length=32
    )
    model = HeadFinder(config).eval()
    torch.nn.init.normal_(model.bilinear.weight)  # at first it is zero, and every head as likely as any other
    torch.nn.init.normal_(model.bilinear.bias)
    return model


@torch.no_grad()
def test_scores_are_dozat_and_mannings_equation() -> None:
    model = finder("sinusoidal")
    states: list[Tensor] = []
    model.encoder.register_forward_hook(lambda _module, _inputs, out: states.append(out))
    scores = model(IDS, FIRST)
    u, bias = model.bilinear.weight, model.bilinear.bias
    for row, n in enumerate((5, 3)):
        r = [states[0][row, place] for place in FIRST[row, :n]]
        heads = [model.head(vector) for vector in (model.root, *r)]
        for i in range(n):
            word = model.word(r[i])
            expected = [head @ u @ word + head @ bias for head in heads]
            torch.testing.assert_close(scores[row, i, : n + 1], torch.stack(expected), atol=1e-5, rtol=0)
    assert (scores[1, :, 4:] == -torch.inf).all()  # padding is nobody's head


@pytest.mark.parametrize("position", POSITIONS)
def test_a_row_alone_equals_the_row_in_a_batch(position: str) -> None:
    model = finder(position)
    together = model(IDS, FIRST, pad_trees(HEADS, WORDS))
    alone = model(IDS[1:, :3], FIRST[1:, :3], pad_trees(HEADS[1:], WORDS[1:]))
    torch.testing.assert_close(together[1:, :3, :4], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("position", POSITIONS)
def test_every_parameter_gets_a_gradient(position: str) -> None:
    model = finder(position)
    scores = model(IDS, FIRST, pad_trees(HEADS, WORDS))
    Heads().loss(scores, Asked({}, LABELS, 8)).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_the_loss_counts_real_words_only() -> None:
    scores = finder("sinusoidal")(IDS, FIRST).detach()
    loss = Heads().loss(scores, Asked({}, LABELS, 8))
    rows = [(row, i) for row, heads in enumerate(HEADS) for i in range(len(heads))]
    expected = [-scores[row, i].log_softmax(0)[HEADS[row][i]] for row, i in rows]
    torch.testing.assert_close(loss.total, torch.stack(expected).sum())
    assert loss.parts["accuracy"].item() == sum(int(scores[row, i].argmax()) == HEADS[row][i] for row, i in rows)


def test_structural_positions_without_a_tree_are_refused() -> None:
    with pytest.raises(InputError, match="needs a dependency tree"):
        finder("structural")(IDS, FIRST)


@pytest.mark.parametrize("wrong", [{"d_arc": 0}, {"dropout": 1.0}, {"n_heads": 3}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HeadFinderConfig(**wrong)  # type: ignore[arg-type]


# -- the leak test ---------------------------------------------------------------------------------------------------


def forest(rows: int, seed: int) -> Asked:
    """Sentences of eight different random words. A head stands behind its word: the next one in a quarter of the cases,
    else any; so words tell nothing, their order tells something, and the tree tells all."""
    rng, n = random.Random(seed), 8
    heads = [[i + 1 if rng.random() < 0.25 else rng.randint(i + 1, n) for i in range(1, n)] + [0] for _ in range(rows)]
    ids = torch.tensor([rng.sample(range(1, 16), n) for _ in range(rows)])
    inputs = {"ids": ids, "first": torch.arange(n).expand(rows, n), "tree": pad_trees(heads)}
    return Asked(inputs, torch.tensor(heads), rows * n)


def learn(position: str, batches: list[Asked], new: Asked) -> float:
    """Accuracy on new sentences after the same short training from the same random start."""
    torch.manual_seed(0)
    config = HeadFinderConfig(
        vocab_size=16, d_model=32, d_ff=32, n_heads=2, layers=1, d_arc=32, dropout=0.0, position=position
    )
    model = HeadFinder(config)
    learner = torch.optim.Adam(model.parameters(), lr=0.01)
    for asked in batches:
        (Heads().loss(model(**asked.inputs), asked).total / asked.count).backward()
        learner.step()
        learner.zero_grad()
    return Heads().loss(model(**new.inputs), new).parts["accuracy"].item() / new.count


def test_trees_in_the_positions_beat_order_and_order_beats_nothing() -> None:
    batches, new = [forest(32, seed) for seed in range(120)], forest(200, 10_000)
    names = ("structural_relative", "structural", "sinusoidal", "none")
    relative, absolute, sequential, nothing = (learn(name, batches, new) for name in names)
    assert relative > 0.9
    assert absolute > sequential + 0.1
    assert sequential > nothing + 0.1
