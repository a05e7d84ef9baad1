"""XLNet: what each stream sees, by gradients and by a plain loop over orders; holes, memory, padding on either side."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import along, close, padded, stirred
from qkv.attention import permuted
from qkv.errors import InputError
from qkv.models import Headed, XLNet, XLNetConfig
from qkv.objectives import Asked, PermutationLM
from qkv.text.tokenizer import BOS, EOS, PAD

V, T, D = 30, 7, 16


@pytest.fixture
def model() -> Any:
    config = XLNetConfig(vocab_size=V, d_model=D, n_heads=2, layers=2, dropout=0.0, max_length=20, memory=5)
    return stirred(XLNet(config), 0.3).double().eval()


def touched(model: Any, place: int, order: list[int]) -> tuple[list[int], list[int]]:
    """The tokens on which the content and the query at a place depend: where a Jacobian is not 0."""
    kept: list[Tensor] = []
    handle = model.tokens.register_forward_hook(lambda _, __, out: kept.append(out.requires_grad_()))
    rank = torch.tensor(order).argsort()[None]
    hidden = model.encode(padded([T], V), mask=permuted(rank, sees_itself=False), targets=torch.tensor([[place]]))
    handle.remove()
    found = []
    for state in (hidden[0, place], hidden[0, T]):
        (gradient,) = torch.autograd.grad((state * along(state)).sum(), kept[0], retain_graph=True)
        found.append(gradient[0].any(-1).nonzero()[:, 0].tolist())
    return found[0], found[1]


@pytest.mark.parametrize("order", [[3, 2, 4, 1, 0, 6, 5], [0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0]])
def test_a_query_does_not_see_its_own_token_and_a_content_does(model: Any, order: list[int]) -> None:
    """Eq. 4: both see all that comes before in the order, h_z_t also x_z_t, g_z_t never; through both blocks."""
    for turn, place in enumerate(order):
        content, query = touched(model, place, order)
        assert content == sorted(order[: turn + 1])
        assert query == sorted(order[:turn])


def attended(model: Any, block: int, x: Tensor, place: int, keys: list[tuple[int, Tensor]]) -> Tensor:
    """One token through one block, by loops: it stands at a place and looks at keys that stand at others."""
    layer, position, c = model.encoder.blocks[block], model.encoder.positions[block], model.config
    n, contexts = c.n_heads, []
    for head in range(n):

        def mine(weight: Tensor, vector: Tensor, head: int = head) -> Tensor:
            return weight.view(n, -1, D)[head] @ vector

        attention = layer.attention
        q, scores, values = mine(attention.query.weight, x), [], []
        for at, h in keys:
            angles = [(place - at) / 10000 ** (2 * i / D) for i in range(D // 2)]
            r = torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)
            k, w_r = mine(attention.key.weight, h), mine(position.project.weight, r)
            scores.append(((q + position.u[head, 0]) @ k + (q + position.v[head, 0]) @ w_r) / math.sqrt(D / n))
            values.append(mine(attention.value.weight, h))
        weights = torch.stack(scores).softmax(0) if keys else []
        contexts.append(sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros_like(q)))
    x = layer.attention_residual.norm(x + attention.output.weight @ torch.cat(contexts))
    return layer.feed_forward_residual.norm(x + layer.feed_forward(x))


def log_likelihood(model: Any, ids: list[int], order: tuple[int, ...]) -> Tensor:
    """sum_t log p(x_z_t | x_z_<t) by Eq. 4, token by token."""
    contents = dict(zip(order, model.tokens.weight[[ids[place] for place in order]], strict=True))
    queries = dict.fromkeys(order, model.query)
    for block in range(model.config.layers):
        keys = [(place, contents[place]) for place in order]
        new = {place: attended(model, block, contents[place], place, keys[: t + 1]) for t, place in enumerate(order)}
        queries = {place: attended(model, block, queries[place], place, keys[:t]) for t, place in enumerate(order)}
        contents = new
    return sum((model.projection(queries[place]).log_softmax(-1)[ids[place]] for place in order), torch.zeros(()))


@torch.no_grad()
def test_over_all_orders_of_three_tokens_the_loss_is_that_of_a_plain_loop(model: Any) -> None:
    ids, losses, expected = [7, 12, 5], [], []
    for order in itertools.permutations(range(3)):
        rank = torch.tensor(order).argsort()[None].double()
        mask = PermutationLM(k=1).order(torch.tensor([ids]), torch.ones(1, 3, dtype=torch.bool), rank)
        inputs = {"ids": torch.tensor([ids]), "mask": mask, "targets": torch.arange(3)[None]}
        losses.append(PermutationLM().loss(model(**inputs), Asked(inputs, torch.tensor([ids]), 3)).total)
        expected.append(-log_likelihood(model, ids, order))
    close(torch.stack(losses), torch.stack(expected), atol=1e-9)
    assert len({round(float(loss), 6) for loss in losses}) == 6  # another order asks another question
    close(torch.stack(losses).mean(), torch.stack(expected).mean(), atol=1e-9)


def test_holes_are_seen_by_nothing_and_each_is_told_by_its_query(model: Any) -> None:
    ids = padded([T, 4, 6], V)
    holes = torch.zeros_like(ids, dtype=torch.bool)
    holes[0, [1, 4]], holes[2, 3] = True, True
    found = model.at_holes(ids, holes)
    assert found.hidden.shape == (3, D)
    close(found.hidden, model.at_holes(ids.masked_fill(holes, 9), holes).hidden)
    alone = model.at_holes(ids[2:, :6], holes[2:, :6]).hidden  # whatever stands beside it
    close(found.hidden[2:], alone)
    assert (found.hidden[:1] - model.at_holes(ids + (torch.arange(T) == 2), holes).hidden[:1]).abs().max() > 1e-3


def test_padding_may_stand_on_either_side(model: Any) -> None:
    ids = padded([T, 4, 6], V)
    left = torch.stack([row.roll(T - n) for row, n in zip(ids, [T, 4, 6], strict=True)])
    close(model.encode(left)[left != PAD], model.encode(ids)[ids != PAD])


def test_the_state_is_what_the_blocks_read_last(model: Any) -> None:
    """No more of it than the memory holds, nothing that learns; and what goes on from it is at the places behind."""
    first, second = padded([T], V), padded([4], V, seed=3)
    state = model(first).state
    assert [part.shape for part in state] == [(1, 5, D)] * 2
    close(state[0], model.tokens(first)[:, -5:])
    assert not any(part.requires_grad for part in state)
    on = model(second, state=state)
    close(on.state[0], model.tokens(torch.cat((first, second), dim=1))[:, -5:])
    # In one block whose memory is long enough, and if the first window does not see the second, they are one text.
    short = stirred(XLNet(XLNetConfig(vocab_size=V, d_model=D, n_heads=2, layers=2, dropout=0.0, memory=T)), 0.3).eval()
    both = torch.cat((first, second), dim=1)
    mask = torch.ones(1, T + 4, T + 4, dtype=torch.bool)
    mask[:, :T, T:] = False
    close(short(second, state=short(first).state).hidden, short.encode(both, mask=mask)[:, T:])


def test_the_last_token_is_in_a_segment_of_its_own(model: Any) -> None:
    """A </s> B </s> <s>: 0 0 1 1 2, whatever is said of <s>; of one text and no segments it is just the same."""
    ids = torch.tensor([[5, EOS, 6, EOS, BOS]])
    with_segments = stirred(XLNet(XLNetConfig(vocab_size=V, d_model=D, n_heads=2, layers=1, dropout=0.0)), 0.5).eval()
    two = torch.tensor([[0, 0, 1, 1, 1]])
    close(with_segments.encode(ids, segments=two), with_segments.encode(ids, segments=two + (ids == BOS)))
    one = with_segments.encode(ids[:, 2:], segments=torch.zeros(1, 3, dtype=torch.long))
    close(with_segments.encode(ids[:, 2:]), one)
    assert (with_segments.encode(ids, segments=two) - with_segments.encode(ids)).abs().max() > 1e-3


def test_a_head_reads_contents_where_queries_stand_behind_them(model: Any) -> None:
    headed = Headed(model, {"tags": "tags(n=3)"}).double().eval()
    ids = padded([T, 4], V)
    mask = (ids != PAD)[:, None].expand(-1, T, -1)
    said = headed(ids, mask=mask, targets=torch.tensor([[0], [2]]))
    assert said.hidden.shape == (2, T + 1, D)
    close(said.answer("tags"), headed(ids, mask=mask).answer("tags"))


def test_a_memory_below_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="memory must be a number of tokens"):
        XLNetConfig(memory=-1)
