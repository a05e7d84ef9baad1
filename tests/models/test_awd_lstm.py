"""AWD-LSTM: without dropout a stack of torch's LSTMs; each of five dropouts by what it leaves; state that goes on."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import along, batch, close, draw, padded, stirred, tiny_model
from qkv.layers import Recurrence, VariationalDropout
from qkv.models import AWDLSTM, AWDLSTMConfig, count_parameters
from qkv.objectives import Activation, TemporalActivation

V, B, T = 40, 3, 7
SIZES = {"vocab_size": V, "d_model": 8, "d_hidden": 12, "layers": 3}


def build(**settings: Any) -> AWDLSTM:
    model = stirred(tiny_model("awd_lstm", **{**SIZES, **settings}), 0.2)
    assert isinstance(model, AWDLSTM)
    return model


@pytest.fixture
def ids() -> Tensor:
    return padded([T] * B, V)


def stack(model: AWDLSTM) -> list[nn.LSTM]:
    """torch's own layers with the model's weights."""
    theirs = [nn.LSTM(below, width, batch_first=True) for below, width in pairwise([8, 12, 12, 8])]
    for one, own in zip(theirs, model.layers, strict=True):
        one.load_state_dict(own.layers.state_dict())  # type: ignore[union-attr]
    return theirs


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_without_dropout_it_is_a_stack_of_lstms_under_a_tied_softmax(ids: Tensor, mode: str) -> None:
    model = build().train(mode == "train")
    x = model.tokens.weight[ids]
    state = []
    for layer in stack(model):
        x, (h, c) = layer(x)
        state += [h[0], c[0]]
    outputs = model(ids)
    close(outputs.logits, x @ model.tokens.weight.T + model.projection.bias)
    close(outputs.raw, outputs.hidden)
    for found, expected in zip(outputs.state, state, strict=True):
        close(found, expected)


def test_a_text_in_two_parts_is_the_text_when_the_state_goes_on(ids: Tensor) -> None:
    model = build().eval()
    first = model(ids[:, :3])
    rest = model(ids[:, 3:], state=first.state)
    whole = model(ids)
    close(torch.cat([first.logits, rest.logits], dim=1), whole.logits)
    close(model.encode(ids[:, 3:], state=first.state), whole.hidden[:, 3:])
    assert not torch.allclose(model(ids[:, 3:]).logits, rest.logits)


def test_the_published_model_has_32_million_parameters() -> None:
    """By hand: 30,000 words of 400 with a bias each; 4 D (D_in + D + 2) in each layer of 1,150, 1,150 and 400."""
    with torch.device("meta"):
        model = AWDLSTM(AWDLSTMConfig())
    layers = [4 * width * (below + width + 2) for below, width in ((400, 1150), (1150, 1150), (1150, 400))]
    assert count_parameters(model) == 30_000 * 401 + sum(layers) == 32_241_600


# -- the five dropouts -----------------------------------------------------------------------------------------------


def test_a_mask_is_one_for_all_tokens_of_a_text_and_another_for_each_text() -> None:
    dropout = VariationalDropout(0.5)
    found = dropout(torch.ones(4, 6, 200))
    assert set(found.unique().tolist()) == {0.0, 2.0}
    assert (found == found[:, :1]).all()
    assert len({tuple(row.tolist()) for row in found[:, 0]}) == 4
    assert 0.4 < (found == 0).float().mean() < 0.6
    assert torch.equal(dropout.eval()(found), found)


@pytest.mark.parametrize("place", ["input", "output", "hidden"])
def test_each_is_where_it_should_be(ids: Tensor, place: str) -> None:
    """What the layers read and give, where one of three is dropped by half: columns of 0 for all tokens of a text."""
    model = build(**{f"{place}_dropout": 0.5}).train()
    read: list[Tensor] = []
    for layer in model.layers:
        layer.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    outputs = model(ids)
    dropped = [(x == 0).all(dim=1).any().item() for x in (*read, outputs.hidden, outputs.raw)]
    where = {"input": [0], "hidden": [1, 2], "output": [3]}[place]
    assert dropped == [i in where for i in range(5)]


def test_a_word_is_dropped_wherever_it_stands_and_the_others_are_larger() -> None:
    model = build(embedding_dropout=0.5).train()
    ids = torch.randint(4, V, (8, 30), generator=torch.Generator().manual_seed(1))
    found = model.embed(ids)  # (B, T, D)
    factors = {word: found[ids == word] / model.tokens.weight[word] for word in ids.unique().tolist()}
    assert {round(factor.unique().item(), 4) for factor in factors.values()} == {0.0, 2.0}  # one for each word
    assert 0.2 < sum(not factor.any() for factor in factors.values()) / len(factors) < 0.8
    close(model.projection.weight, model.tokens.weight, atol=0)  # the softmax keeps every word


def test_recurrent_weights_are_dropped_once_for_all_steps_and_rows() -> None:
    """Against torch's LSTM with the same values of U at 0 and the others doubled; the weights stay as they are."""
    ours, theirs = Recurrence("lstm", 5, 6, layers=1, weight_dropout=0.5), nn.LSTM(5, 6, batch_first=True)
    theirs.load_state_dict(ours.layers.state_dict())
    x, before = draw(B, T, 5), {name: value.clone() for name, value in ours.named_parameters()}
    torch.manual_seed(4)
    mask = ours.weight_dropout.mask(theirs.weight_hh_l0)
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    with torch.no_grad():
        theirs.weight_hh_l0 *= mask
    torch.manual_seed(4)
    found, [(h, c)] = ours(x)
    expected, last = theirs(x)
    close(found, expected)
    close(torch.stack([h, c]), torch.stack(last)[:, 0])
    (found * along(found)).sum().backward()
    assert ours.layers.weight_hh_l0.grad is not None
    assert torch.equal(ours.layers.weight_hh_l0.grad == 0, mask == 0)
    assert all(torch.equal(value, before[name]) for name, value in ours.named_parameters())
    assert not torch.allclose(ours.eval()(x)[0], found)


def test_in_evaluation_nothing_is_dropped(ids: Tensor) -> None:
    rates = {f"{name}_dropout": 0.5 for name in ("input", "hidden", "output", "weight", "embedding")}
    close(build(**rates).eval()(ids).logits, build().eval()(ids).logits, atol=0)
    assert not torch.allclose(build(**rates).train()(ids).logits, build().eval()(ids).logits)


# -- long texts, and the costs of activations ------------------------------------------------------------------------


def test_gradients_reach_the_last_tokens_of_a_long_text() -> None:
    """Howard & Ruder 2018, section 3.3 (BPT3C): what comes before them leaves its state, and is not learned from."""
    model, ids = build(max_length=4), torch.arange(4, 4 + T)[None]
    hidden = model.train().encode(ids)
    (hidden * along(hidden)).sum().backward()
    gradient = model.tokens.weight.grad
    assert gradient is not None
    assert (gradient.abs().sum(dim=1) > 0).nonzero()[:, 0].tolist() == ids[0, 3:].tolist()
    close(hidden, model.eval().encode(ids))


def test_activations_cost_their_mean_square_and_their_moves(ids: Tensor) -> None:
    """AR on what dropout has left, TAR on what it was; both by hand."""
    model = build(output_dropout=0.5).train()
    rows = batch(*([row.tolist()[:n]] for row, n in zip(ids, (T, 4, T), strict=True)))  # padding does not count
    outputs = model(rows.columns[0])
    real = [outputs.hidden[row, :n] for row, n in enumerate((T, 4, T))]
    raw = [outputs.raw[row, :n] for row, n in enumerate((T, 4, T))]
    for objective, expected in (
        (Activation(), torch.cat(real).pow(2).mean()),
        (TemporalActivation(), torch.cat([(x[1:] - x[:-1]).pow(2) for x in raw]).mean()),
    ):
        asked = objective.prepare(rows, torch.Generator())
        close(objective.loss(outputs, asked).total / asked.count, expected)
    assert not torch.allclose(outputs.hidden, outputs.raw)


def test_it_learns_a_text_by_heart() -> None:
    model = build(layers=2, d_model=16, d_hidden=24, weight_dropout=0.1, input_dropout=0.1).train()
    ids = torch.randint(4, V, (2, 12), generator=torch.Generator().manual_seed(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(150):
        loss = F.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model.eval()(ids[:, :-1]).logits.argmax(dim=2) == ids[:, 1:]).all()
