"""Heads: each answer against a plain loop over rows and tokens, and BERT's pooler against transformers."""

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertPooler

from kit import draw, refused, stirred
from qkv.config import build
from qkv.layers import HEADS
from qkv.layers.heads import BatchNorm

B, T, D = 4, 6, 8
LENGTHS = [6, 3, 1, 5]
REAL = torch.arange(T) < torch.tensor(LENGTHS)[:, None]
SPECS = [
    *(f"classes(n=3, pool={pool!r})" for pool in ("last", "first", "mean", "concat")),
    "concat_classes(n=3, hidden=5)",
    "attention_classes(n=3, d_hidden=5)",
    "classes(n=2, dense=True)",
    "number(pool='mean')",
    "tags(n=5)",
    "spans",
    "choices(dense=True)",
]


@pytest.fixture
def hidden() -> Tensor:
    return draw(B, T, D, seed=1)


def head(spec: str) -> torch.nn.Module:
    torch.manual_seed(0)
    return build(HEADS, spec, D).eval()


@pytest.mark.parametrize("pool", ["last", "first", "mean", "concat"])
def test_a_class_is_read_from_one_vector_of_the_text(pool: str, hidden: Tensor) -> None:
    part = head(f"classes(n=3, pool={pool!r})")
    found = part(hidden, REAL)
    for row, length in enumerate(LENGTHS):
        tokens = [hidden[row, t] for t in range(length)]
        several = {"last": tokens[-1], "first": tokens[0], "mean": sum(tokens) / length}
        largest = torch.tensor([max(float(token[i]) for token in tokens) for i in range(D)])
        several["concat"] = torch.cat([several["last"], largest, several["mean"]])  # Howard & Ruder 2018, section 3.3
        vector = several[pool]
        torch.testing.assert_close(found[row], part.output.weight @ vector + part.output.bias)


def test_batch_norm_is_torchs(hidden: Tensor) -> None:
    """In training and after it; the moving means are saved with the weights, and one row alone is read by them."""
    ours, theirs, x = BatchNorm(D), nn.BatchNorm1d(D), hidden[:, 0]
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
        x = 2 * x + 1
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, theirs.running_var)
    assert {"mean", "variance"} <= {name for name, _ in ours.named_parameters()}
    alone = ours(x[:1])
    torch.testing.assert_close(ours.eval()(x[:1]), alone)
    torch.testing.assert_close(ours(x), theirs.eval()(x))


def test_the_head_of_ulmfit_is_two_blocks(hidden: Tensor) -> None:
    """Batch norm, dropout, linear, ReLU; batch norm, dropout, linear: against torch's layers on the pooled texts."""
    part = head("concat_classes(n=3, hidden=5)").train()
    part.block[1].level = part.dropout.level = 0
    norms = nn.BatchNorm1d(3 * D), nn.BatchNorm1d(5)
    x = torch.stack([
        torch.cat([hidden[row, n - 1], hidden[row, :n].amax(0), hidden[row, :n].mean(0)])
        for row, n in enumerate(LENGTHS)
    ])  # fmt: skip
    expected = part.output(norms[1](part.block[2](norms[0](x)).relu()))
    torch.testing.assert_close(part(hidden, REAL), expected)
    usual = head("concat_classes(n=2)")
    assert [round(part.level / 256, 1) for part in (usual.block[1], usual.dropout)] == [0.4, 0.1]
    assert usual.block[2].out_features == 50


def test_the_head_of_siatl_attends_to_an_lstm_of_its_own(hidden: Tensor) -> None:
    """By hand: a_t = softmax(query . tanh(W h_t + b)) over the tokens of a text, logits of the sum of a_t h_t."""
    part = head("attention_classes(n=3, d_hidden=5)")
    found = part(hidden, REAL)
    for row, n in enumerate(LENGTHS):
        states = part.recurrence.layers(hidden[row : row + 1, :n])[0][0]  # (n, 5)
        weights = (part.pooling.key(states).tanh() @ part.pooling.query).softmax(dim=0)
        torch.testing.assert_close(found[row], part.output(weights @ states))


def test_the_dense_layer_is_berts_pooler(hidden: Tensor) -> None:
    part, pooler = head("classes(n=2, pool='first', dense=True)"), BertPooler(BertConfig(hidden_size=D))
    with torch.no_grad():
        part.dense[0].weight.copy_(pooler.dense.weight)
        part.dense[0].bias.copy_(pooler.dense.bias)
    torch.testing.assert_close(part(hidden, REAL), part.output(pooler(hidden)))


def test_a_number_is_one_class_by_itself(hidden: Tensor) -> None:
    part = head("number")
    expected = [part.output.weight[0] @ hidden[row, n - 1] + part.output.bias[0] for row, n in enumerate(LENGTHS)]
    torch.testing.assert_close(part(hidden, REAL), torch.stack(expected))


def test_each_token_has_a_tag(hidden: Tensor) -> None:
    part = head("tags(n=5)")
    found = part(hidden, REAL)
    assert found.shape == (B, T, 5)
    torch.testing.assert_close(found[2, 0], part.output.weight @ hidden[2, 0] + part.output.bias)


def test_an_answer_never_begins_or_ends_in_padding(hidden: Tensor) -> None:
    part = head("spans")
    found = part(hidden, REAL)
    assert found.shape == (B, 2, T)
    assert (found[:, 0] == -torch.inf).equal(~REAL)
    assert (found[:, 1] == -torch.inf).equal(~REAL)
    end = hidden[3] @ part.output.weight[1] + part.output.bias[1]
    torch.testing.assert_close(found[3, 1, :5], end[:5])
    torch.testing.assert_close(found.softmax(dim=-1).sum(dim=-1), torch.ones(B, 2))


@pytest.mark.parametrize("spec", SPECS)
def test_padding_never_leaks_and_a_row_alone_is_the_row_in_a_batch(spec: str, hidden: Tensor) -> None:
    part = head(spec)
    together = part(hidden, REAL)
    dirty = part(hidden.masked_fill(~REAL[:, :, None], 99.0), REAL)
    for row, length in enumerate(LENGTHS):
        alone = part(hidden[row : row + 1, :length], REAL[row : row + 1, :length])[0]
        own = (slice(length),) if spec.startswith("tags") else (..., slice(length)) if spec == "spans" else ()
        torch.testing.assert_close(together[row][own], alone)
        torch.testing.assert_close(dirty[row][own], alone)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "spans"])
def test_dropout_is_for_training(spec: str, hidden: Tensor) -> None:
    part = head(spec)
    assert torch.equal(part(hidden, REAL), part(hidden, REAL))
    part.train()
    assert not torch.equal(part(hidden, REAL), part(hidden, REAL))


@refused(
    {
        "classes(n=0)": "n=0",
        "tags(n=3, dropout=1.0)": "dropout=1.0",
        "classes(n=2, pool='best')": "pool='best'",
        "clases(n=2)": "did you mean 'classes'",
        "concat_classes(n=2, hidden=0)": "hidden=0",
        "concat_classes(n=2, last_dropout=1.0)": "dropout=1.0",
        "attention_classes(n=2, d_hidden=0)": "d_hidden=0 cannot be; give 1 or more",
    },
    "spec",
)
def test_a_head_that_cannot_be_is_refused(spec: str) -> None:
    head(spec)


# -- the stochastic answer network -------------------------------------------------------------------------------------

SECOND = torch.arange(T) >= torch.tensor([4, 2, 1, 2])[:, None]  # the third row has no second text; padding is of it


def softmax(scores: list[Tensor]) -> list[Tensor]:
    total = sum(score.exp() for score in scores)
    return [score.exp() / total for score in scores]


def looked(scores: list[Tensor], states: list[Tensor]) -> Tensor:
    return sum((weight * state for weight, state in zip(softmax(scores), states, strict=True)), torch.zeros(D))


def gru(cell: torch.nn.GRUCell, x: Tensor, s: Tensor) -> Tensor:
    """Cho et al. 2014, written out: torch stacks the gates r, z and the new state n."""
    given = [weight @ x + bias for weight, bias in zip(cell.weight_ih.chunk(3), cell.bias_ih.chunk(3), strict=True)]
    known = [weight @ s + bias for weight, bias in zip(cell.weight_hh.chunk(3), cell.bias_hh.chunk(3), strict=True)]
    r, z = (1 / (1 + (-(a + b)).exp()) for a, b in zip(given[:2], known[:2], strict=True))
    return (1 - z) * torch.tanh(given[2] + r * known[2]) + z * s


def turns_by_hand(part: torch.nn.Module, hidden: Tensor, row: int, turns: int) -> list[Tensor]:
    """The probabilities of each turn for one row, token by token."""
    tokens = [hidden[row, t] for t in range(LENGTHS[row])]
    premise, hypothesis = (
        [state for t, state in enumerate(tokens) if bool(SECOND[row, t]) is of] for of in (False, True)
    )
    s, found = looked([part.first.weight[0] @ h for h in hypothesis], hypothesis), []
    for _ in range(turns):
        x = looked([s @ part.attend.weight.T @ m for m in premise], premise)
        logits = part.output.weight @ torch.cat([s, x, (s - x).abs(), s * x]) + part.output.bias
        found.append(torch.stack(softmax([*logits])))
        s = gru(part.next, x, s)
    return found


@pytest.mark.parametrize("turns", [1, 5])
def test_an_answer_in_turns_is_the_log_of_the_mean_of_each(turns: int, hidden: Tensor) -> None:
    """With one turn and nothing dropped: log softmax(V [s; x; |s - x|; s * x])."""
    part = stirred(head(f"san(n=3, turns={turns})"), 0.5)
    found = part(hidden, REAL, SECOND)
    for row in range(B):
        mean = sum(turns_by_hand(part, hidden, row, turns)) / turns
        torch.testing.assert_close(found[row], mean.log(), atol=1e-5, rtol=0)


def test_in_training_turns_are_dropped_and_one_always_stays(hidden: Tensor) -> None:
    """Whatever is dropped, each answer is the mean of some of the turns of its row."""
    part = stirred(head("san(n=3, turns=3, dropping=0.9, dropout=0.0)"), 0.5).train()
    turns = [torch.stack(turns_by_hand(part, hidden, row, 3)) for row in range(B)]
    subsets = torch.tensor([[bool(n >> i & 1) for i in range(3)] for n in range(1, 8)]).float()
    seen = [set[int]() for _ in range(B)]
    for _ in range(60):
        found = part(hidden, REAL, SECOND)
        for row in range(B):
            means = (subsets @ turns[row] / subsets.sum(1, keepdim=True)).log()  # (7, n)
            apart = (means - found[row]).abs().amax(dim=1)
            assert apart.min() < 1e-5
            seen[row].add(int(apart.argmin()))
    assert all(len(one) > 3 for one in seen)


def test_each_turn_stays_as_often_as_it_should() -> None:
    """One of five for sure, the other four with 0.9: each with 0.2 + 0.8 * 0.9."""
    part = head("san(n=2)").train()
    kept = part.kept(torch.zeros(20_000, 1, D))
    torch.testing.assert_close(kept.float().mean(0), torch.full((5,), 0.92), atol=0.01, rtol=0)
    assert kept.any(dim=1).all()
    assert part.eval().kept(torch.zeros(3, 1, D)).all()


def test_an_answer_network_sees_no_padding_and_no_text_harms_nobody(hidden: Tensor) -> None:
    part = stirred(head("san(n=3)"), 0.5)
    clean = part(hidden, REAL, SECOND)
    other = torch.where(REAL[:, :, None], hidden, 100 * hidden)
    torch.testing.assert_close(part(other, REAL, SECOND), clean)
    hidden.requires_grad_()
    part(hidden, REAL, torch.zeros_like(REAL)).sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.isfinite().all()


@refused({"san(n=2, turns=0)": "turns=0", "san(n=2, dropping=1.0)": "0 <= dropping < 1"}, "spec")
def test_an_answer_in_no_turn_is_refused(spec: str) -> None:
    head(spec)
